"""``holdfast job``."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import threading
import time
import unicodedata

import pytest

import holdfast
import holdfast.driver
from holdfast import Client, Holdfast, JobRequest, Unrecoverable
from holdfast.clock import MINUTE
from holdfast.driver import JobRecord
from holdfast.drivers.answers import Page
from holdfast.drivers.requests import Extend, Find, Write
from holdfast.drivers.sqlite import SqliteEngine
from holdfast.model.lease import Note
from holdfast.model.registry import Change
from holdfast.wire.guard_entries import MARK_KIND, Holder, mark_key

UNSAFE = {
    "Cc",
    "Cf",
    "Cs",
    "Zl",
    "Zp",
}  # Unicode categories of characters that control a terminal or the text direction


def ids(run, *arguments: str) -> list[str]:
    return [job["id"] for job in run("job", "list", "--json", *arguments).json["items"]]


def test_jobs_are_listed_as_a_table(run, filled):
    lines = run("job", "list").out.splitlines()
    assert lines[0].split() == ["ID", "STATE", "RUNS", "AGE", "QUEUE", "TYPE"]
    assert len(lines) == 12
    assert [line.split()[1] for line in lines[1:]].count("dead") == 6
    assert lines[-1].split()[1] == "scheduled"


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (["--state", "dead"], 6),
        (["--state", "dead", "--state", "done"], 7),
        (["--queue", "mail"], 10),
        (["--type", "report"], 1),
        (["--name", "mail 3"], 1),
        (["--since", "1h"], 11),
        (["--until", "1h"], 0),
        (["--since", "2020-01-01T00:00:00Z", "--until", "2100-01-01T00:00:00Z"], 11),
        (["--domain", "d"], 0),
        (["--key", "k"], 0),
        (["--limit", "3"], 3),
    ],
)
def test_a_filter_selects_jobs(run, filled, filters, count):
    assert len(ids(run, *filters)) == count


def test_the_pages_contain_every_job_once(run, filled):
    seen, after = [], []
    while True:
        page = run("job", "list", "--json", "--limit", "4", *after).json
        seen += [job["id"] for job in page["items"]]
        if page["cursor"] is None:
            break
        after = ["--after", page["cursor"]]
    assert len(set(seen)) == len(seen) == 11
    assert "more: --after" in run("job", "list", "--limit", "4").err


def test_the_newest_jobs_come_first_if_asked(run, filled):
    every = ids(run)
    assert ids(run, "--newest") == every[::-1]
    assert ids(run, "--newest", "--state", "dead") == [one for one in every[::-1] if one in ids(run, "--state", "dead")]
    first = run("job", "list", "--newest", "--limit", "3")
    assert first.err == f"more: --newest --after {every[-3]}\n"
    assert ids(run, "--newest", "--after", every[-3]) == every[-4::-1]


def test_a_search_for_new_jobs_ends_at_old_ids(run, url, store, monkeypatch):
    old = [
        JobRecord(id=f"01000000-0000-7000-8000-{n:012}", type="t", queue="q", payload=b"", created_at=n)
        for n in range(9)
    ]
    store.enqueue(old)
    Client(store).enqueue(JobRequest(type="t"))
    calls = []
    find = SqliteEngine.find

    def find_two(self, request):
        calls.append(request.after)
        page = find(self, request)
        rows = list(find(self, Find(limit=2, after=request.after, newest=request.newest)))
        return Page(page.items, rows[-1].id)  # as after FIND_LIMIT rows

    monkeypatch.setattr(SqliteEngine, "find", find_two)
    page = run("job", "list", "--newest", "--since", "1h", "--json").json
    assert (len(page["items"]), page["cursor"], len(calls)) == (1, old[-1].id, 1)


def test_a_pipe_gets_a_line_for_each_job_that_is_new_or_has_changed(run, start, filled):
    lines = run("job", "list", "--watch", "--for", "1ms", "--state", "ready", "--limit", "2").out.splitlines()
    assert [line.split()[1:3] for line in lines] == [["ready", "0"], ["scheduled", "0"]]
    process = start("job", "list", "--watch", "--queue", "mail", "--json")
    first = [json.loads(process.stdout.readline())["id"] for _ in range(10)]
    assert first == ids(run, "--queue", "mail")
    [one] = filled.reserve(["mail"], limit=1, lease_for=MINUTE)
    changed = json.loads(process.stdout.readline())
    assert (changed["id"], changed["state"]) == (one.job.id, "inflight")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130


def test_a_terminal_shows_a_table_that_is_refreshed(start, filled, url):
    screen, terminal = pty.openpty()
    process = start("job", "list", "--watch", terminal=terminal)
    shown = b""
    while shown.count(b"Ctrl-C stops") < 2:
        assert select.select([screen], [], [], 60)[0]
        shown += os.read(screen, 4096)
    assert b"\x1b[2J" in shown
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    os.close(screen)


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--watch", "--after", "x"], "either --watch or --after"), (["--for", "1s"], "wanted --watch too")],
)
def test_options_that_do_not_fit_together_are_refused(run, filled, options, message):
    assert message in run("job", "list", *options, code=2).err


def test_an_empty_list_is_not_an_error(run, filled):
    result = run("job", "list", "--queue", "none")
    assert (result.out, result.err) == ("", "no job matches\n")


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (["--state", "gone"], "'gone' is not one of"),
        (["--since", "yesterday"], "how long ago"),
        (["--limit", "0"], "0 is not in the range"),
        (["--limit", "many"], "not a valid integer"),
        (["--after", "no such cursor"], "after: wanted"),
    ],
)
def test_invalid_filters_are_refused(run, filled, filters, message):
    assert message in run("job", "list", *filters, code=2).err


def test_show_prints_everything_except_the_token(run, filled):
    [job_id] = ids(run, "--state", "inflight")
    shown = run("job", "show", job_id).out.splitlines()
    assert "worker    host-a" in shown
    assert 'payload   {"n": 7}' in shown
    seen = run("job", "show", job_id, "--json").json
    assert (seen["state"], seen["worker"], seen["payload"], seen["cancel_requested"]) == (
        "inflight",
        "host-a",
        {"n": 7},
        False,
    )
    assert seen["expires_at"].endswith("Z")
    assert "token" not in seen


def test_show_prints_notes_results_and_bytes(run, url, store):
    job_id = run("enqueue", "t", "--meta", "a=b", "--timeout", "1m").out.strip()
    [one] = store.reserve(["default"], limit=1, lease_for=MINUTE)
    store.do(Extend(leases=[one.lease], lease_for=MINUTE, notes={job_id: Note(progress=b'"half"', checkpoint=b"\xff")}))
    seen = run("job", "show", job_id, "--json").json
    assert (seen["progress"], seen["checkpoint"], seen["timeout"]) == ("half", {"base64": "/w=="}, 60.0)
    holdfast.driver.ack(store, one.lease, result=b'{"long":"' + b"x" * 80 + b'"}')
    shown = run("job", "show", job_id).out
    assert "result\n  {\n" in shown
    assert "meta        a=b\n" in shown


def test_control_characters_of_jobs_are_escaped(run, url, store):
    run("enqueue", "t")
    [one] = store.reserve(["default"], limit=1, lease_for=MINUTE)
    holdfast.driver.fail(store, one.lease, reason="\x1b[2Jgone", error="line\x1b[31m one\nline two\x07\u202e")
    for command in (["job", "show", one.job.id], ["dead", "list"], ["dead", "groups"], ["job", "wait", one.job.id]):
        out = run(*command, code=None).out
        assert not {"\x1b", "\x07", "\u202e"} & set(out)


def test_json_output_contains_no_character_that_controls_a_terminal(run, url, store):
    text = "\x1b[2J\x7f\x9b31m\u202e\u2066\u200e\u2028\ufeff\U000e0041 Åsa 漢字"
    [answer] = Client(store).enqueue([JobRequest(type="t", payload=text)])
    shown = run("job", "show", answer.id, "--json")
    assert not {character for character in shown.out if unicodedata.category(character) in UNSAFE} - {"\n"}
    assert "Åsa 漢字" in shown.out
    assert shown.json["payload"] == text


def test_cancel_ends_ready_jobs_and_asks_running_jobs_to_stop(run, filled):
    [running] = ids(run, "--state", "inflight")
    [waiting, *_] = ids(run, "--state", "ready")
    result = run("job", "cancel", waiting, running)
    assert result.out == f"{waiting}  cancelled\n{running}  asked to stop\n"
    assert run("job", "cancel", waiting, "--json").json == {"id": waiting, "state": "cancelled"}
    [done] = ids(run, "--state", "done")
    assert "cannot be cancelled" in run("job", "cancel", done, code=1).err
    assert "1 of 1 jobs are unknown" in run("job", "cancel", "nope", code=4).err


def test_retry_runs_dead_jobs_again_and_refuses_others(run, filled):
    [letter, *_] = ids(run, "--state", "dead")
    assert run("job", "retry", letter).out == f"{letter}  requeued\n"
    again = run("job", "retry", letter, "--json", code=1)
    assert again.json == {"id": letter, "requeued": False, "state": "ready"}
    assert "only dead and cancelled" in again.err
    assert run("job", "retry", "nope", code=4).out == "nope  unknown\n"


def test_wait_prints_how_jobs_ended(run, filled):
    [done] = ids(run, "--state", "done")
    [letter, *_] = ids(run, "--state", "dead")
    assert run("job", "wait", done, done).out == f"{done}  done\n"
    assert run("job", "wait", done, letter, code=1).out.splitlines()[1] == f"{letter}  dead  bad address"
    assert [job["state"] for job in run("job", "wait", done, letter, "--json", code=1).lines] == ["done", "dead"]
    assert "no job nope" in run("job", "wait", "nope", code=4).err


def test_wait_times_out(run, filled):
    [waiting, *_] = ids(run, "--state", "ready")
    began = time.monotonic()
    assert "1 of 1 jobs have not ended" in run("job", "wait", waiting, "--timeout", "200ms", code=5).err
    assert 0.2 <= time.monotonic() - began < 5


def test_wait_sees_a_job_end(run, url, store):
    job_id = Client(store).enqueue(JobRequest(type="t")).id

    def work() -> None:
        [one] = store.reserve(["default"], limit=1, lease_for=MINUTE)
        holdfast.driver.ack(store, one.lease)

    timer = threading.Timer(0.3, work)
    timer.start()
    assert run("job", "wait", job_id, "--timeout", "30s").out == f"{job_id}  done\n"
    timer.join()


@pytest.mark.parametrize("command", ["show", "wait", "cancel", "retry"])
def test_every_command_requires_an_id(run, url, command):
    assert "Missing argument" in run("job", command, code=2).err


def test_an_unknown_job_is_not_found(run, filled):
    assert "no job nope" in run("job", "show", "nope", code=4).err
    assert "id: wanted 1 to 128" in run("job", "show", "no job", code=2).err


def test_show_prints_the_output_of_the_last_attempt(run, url, store):
    app = Holdfast(driver=store)

    @app.handler("t", capture_output=True)
    def work(payload):
        print("rows:", payload)
        print("\x1b[2J")

    job = work.enqueue(3)
    app.worker().process_once()
    shown = run("job", "show", job.id).out
    assert "execution  attempt 1 succeeded after" in shown
    assert "output\n  rows: 3\n" in shown
    assert "\x1b" not in shown
    execution = run("job", "show", job.id, "--json").json["execution"]
    assert (execution["success"], execution["output"], execution["handler"]) == (True, "rows: 3\n\x1b[2J\n", "t")
    other = run("enqueue", "u").out.strip()
    assert run("job", "show", other, "--json").json["execution"] is None


@pytest.mark.parametrize("command", [["job", "retry"], ["dead", "requeue", "--yes"]])
def test_a_requeued_job_runs_although_its_key_is_done(run, url, store, command):
    app = Holdfast(driver=store)
    calls = []

    @app.handler("t", idempotent=True)
    def work(payload):
        calls.append(payload)
        if len(calls) == 1:
            raise Unrecoverable("no")

    job = work.enqueue(1, idempotency_key="k")
    assert app.worker().process_once().status == "dead"
    value = Holder(job_id="another", fence=9, done=True).encode()
    store.do(Write(changes=[Change(kind=MARK_KIND, key=mark_key("default", "k"), value=value)]))
    run(*command, job.id)
    assert app.worker().process_once().status == "acked"
    assert calls == [1, 1]
