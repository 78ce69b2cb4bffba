"""``holdfast reap``, ``trim`` and ``ledger``."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

import holdfast
import holdfast.driver
from holdfast import Client, JobRequest
from holdfast.clock import DAY, MILLISECOND, MINUTE, ManualClock, SystemClock


def test_reap_ends_expired_leases(run, url, store):
    Client(store).enqueue([JobRequest(type="t", queue=queue) for queue in ("a", "a", "b")])
    assert len(store.reserve(["a", "b"], limit=3, lease_for=MILLISECOND)) == 3
    threading.Event().wait(0.01)
    assert run("reap", "--queue", "b").out == "1 lease ended\n"
    assert run("reap", "--json").json == {"ended": 2}
    assert run("reap").out == "0 leases ended\n"


def test_reap_of_a_dead_worker_does_not_wait(run, filled):
    assert run("reap", "--worker", "host-b").out == "0 leases ended\n"
    assert run("reap", "--worker", "host-a").out == "1 lease ended\n"


def test_reap_ends_more_leases_than_one_call_of_the_driver_can(run, url, store):
    Client(store).enqueue([JobRequest(type="t")] * 1500)
    store.reserve(["default"], limit=1500, lease_for=MINUTE, worker="w")
    assert run("reap", "--worker", "w", "--json").json == {"ended": 1500}


def test_trim_removes_old_rows(run, url, folder):
    clock = ManualClock(SystemClock().now() - 10 * DAY)
    with holdfast.connect(url, clock=clock) as store:
        Client(store, clock=clock).enqueue([JobRequest(type="t"), JobRequest(type="t")])
        done, dead = store.reserve(["default"], limit=2, lease_for=MINUTE)
        holdfast.driver.ack(store, done.lease)
        holdfast.driver.fail(store, dead.lease, reason="no")
    (folder / "holdfast.toml").write_text('keep_ended = "11d"\n', encoding="utf-8")
    assert run("trim", "--json").json == {"jobs": 0, "ledger": 0, "dedupe": 0, "registry": 0}
    (folder / "holdfast.toml").unlink()
    assert run("trim").out == "removed 1 jobs, 0 ledger rows, 0 keys, 0 registry rows\n"
    (folder / "holdfast.toml").write_text('keep_ledger = "5d"\n', encoding="utf-8")
    assert run("trim", "--json").json["ledger"] == 2
    assert run("dead", "list", "--json").json["items"][0]["id"] == dead.job.id
    run("retention", "--keep-dead", "9d")
    assert run("trim", "--json").json["jobs"] == 1
    assert run("dead", "list", "--json").json["items"] == []


def test_the_retention_is_shown_and_set(run, url, store, folder):
    assert run("retention").out == "done and cancelled jobs 7d, ledger rows 30d; not stored: from the settings\n"
    assert run("retention", "--keep-ledger", "90d").out == "done and cancelled jobs 7d, ledger rows 90d\n"
    assert run("retention", "--keep-ended", "2d", "--json").json == {
        "keep_ended": 2 * 86_400,
        "keep_ledger": 90 * 86_400,
        "keep_dead": None,
        "stored": True,
    }
    dead = run("retention", "--keep-dead", "90d").out
    assert dead == "done and cancelled jobs 2d, ledger rows 90d, dead letters 90d\n"
    run("retention", "--keep-dead", "none")
    assert "'--keep-ended': wanted at least 1d, got 1h" in run("retention", "--keep-ended", "1h", code=2).err
    assert "wanted a length such as" in run("retention", "--keep-ledger", "soon", code=2).err
    assert run("retention").out == "done and cancelled jobs 2d, ledger rows 90d\n"
    assert "(stored)" in run("doctor").out


def test_the_stored_retention_overrides_the_settings(run, url, folder):
    clock = ManualClock(SystemClock().now() - 10 * DAY)
    with holdfast.connect(url, clock=clock) as store:
        Client(store, clock=clock).enqueue(JobRequest(type="t"))
        [done] = store.reserve(["default"], limit=1, lease_for=MINUTE)
        holdfast.driver.ack(store, done.lease)
    (folder / "holdfast.toml").write_text('keep_ledger = "5d"\n', encoding="utf-8")
    [check] = [one for one in run("doctor", "--json").json["checks"] if one["name"] == "retention"]
    assert (check["health"], "ledger rows 5d (from the settings" in check["text"]) == ("ok", True)
    run("retention", "--keep-ended", "20d", "--keep-ledger", "20d")
    assert run("trim", "--json").json == {"jobs": 0, "ledger": 0, "dedupe": 0, "registry": 0}
    [check] = [one for one in run("doctor", "--json").json["checks"] if one["name"] == "retention"]
    assert check["health"] == "note"
    assert "ledger rows 20d (stored); the settings want done and cancelled jobs 7d, ledger rows 5d" in check["text"]
    run("retention", "--keep-ended", "5d")
    assert run("trim", "--json").json["jobs"] == 1


# The ledger -------------------------------------------------------------------------------------------------


def test_the_last_rows_are_shown_by_default(run, filled):
    lines = run("ledger", "--limit", "3").out.splitlines()
    assert lines[0].split() == ["ENDED", "ENDING", "RUN", "JOB", "TYPE", "WHY"]
    assert [line.split()[1] for line in lines[1:]] == ["failed", "failed", "acked"]
    *rows, last = run("ledger", "--json").lines
    assert Counter(row["ending"] for row in rows) == {"failed": 6, "acked": 1}
    assert list(last) == ["cursor"]
    assert rows[0]["worker"] == "host-a"
    assert rows[0]["reserved_at"].endswith("Z")


def test_reading_on_from_the_cursor_skips_no_row(run, filled):
    seen, after = [], ["--oldest"]
    while True:
        *rows, last = run("ledger", "--json", "--limit", "3", *after).lines
        seen += [row["job_id"] for row in rows]
        after = ["--after", last["cursor"]]
        if not rows:
            break
    assert seen == [row.job_id for row in filled.ledger()]
    assert "no row matches; continue: --after" in run("ledger", *after).err


def test_a_filter_selects_ledger_rows(run, filled):
    for filters, count in (
        (["--ending", "acked"], 1),
        (["--ending", "acked", "--ending", "failed"], 7),
        (["--queue", "reports"], 0),
        (["--type", "mail.send"], 7),
        (["--job", filled.ledger().items[0].job_id], 1),
        (["--oldest", "--ending", "acked", "--limit", "1"], 1),
    ):
        assert len(run("ledger", "--json", *filters).lines) == count + 1


def test_follow_shows_new_rows(run, filled):
    def work() -> None:
        for one in filled.reserve(["mail"], limit=2, lease_for=MINUTE, worker="host-b"):
            holdfast.driver.ack(filled, one.lease)

    timer = threading.Timer(0.2, work)
    timer.start()
    lines = run("ledger", "--follow", "--for", "1500ms", "--limit", "1", "--json").lines
    timer.join()
    rows = [line for line in lines if "job_id" in line]
    assert [row["worker"] for row in rows] == ["host-a", "host-b", "host-b"]
    assert run("ledger", "--after", lines[-1]["cursor"], "--json").lines == [lines[-1]]
    result = run("ledger", "--follow", "--for", "1ms", "--limit", "2")
    assert len(result.out.splitlines()) == 2
    assert "continue: --after" in result.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--for", "1s"], "wanted --follow too"),
        (["--after", "1", "--oldest"], "wanted either --after or --oldest, got both"),
        (["--after", "elsewhere"], "after: wanted a cursor that this ledger gave"),
        (["--ending", "lost"], "is not one of"),
    ],
)
def test_invalid_options_are_refused(run, filled, options, message):
    assert message in run("ledger", *options, code=2).err


def test_a_cursor_older_than_the_ledger_is_an_error(run, url):
    clock = ManualClock(SystemClock().now() - 40 * DAY)
    with holdfast.connect(url, clock=clock) as store:
        Client(store, clock=clock).enqueue(JobRequest(type="t"))
        [one] = store.reserve(["default"], limit=1, lease_for=MINUTE)
        holdfast.driver.ack(store, one.lease)
    run("trim")
    assert "the ledger was trimmed past cursor '0'" in run("ledger", "--after", "0", code=1).err
