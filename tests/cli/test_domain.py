"""``holdfast domain`` and ``holdfast queue order``, on a store with one halted and one waiting domain."""

from __future__ import annotations

import shlex

import pytest

import holdfast
from holdfast import Client, JobRequest
from holdfast.clock import MINUTE
from holdfast.driver import Ack, Fail, Gaps, OnExhausted, QueueSettings
from holdfast.drivers.requests import Configure, Settings

QUEUE = "accounts"
SETTINGS = QueueSettings(gaps=Gaps.WAIT, on_exhausted=OnExhausted.HALT, gap_report_after=1)


@pytest.fixture
def store(url):
    with holdfast.connect(url) as store:
        yield store


@pytest.fixture
def stopped(store):
    """``broken`` is halted by its offset 1, ``gap`` waits for its offset 0, ``fine`` is open. Returns the dead id."""
    store.do(Configure(queue=QUEUE, settings=SETTINGS))
    client = Client(store)
    first, dead, *_ = client.enqueue([entry("broken", offset) for offset in range(3)])
    for outcome in (Ack, lambda lease: Fail(lease, "the bank refuses")):
        [reservation] = store.reserve([QUEUE], limit=1, lease_for=MINUTE)
        assert store.settle([outcome(reservation.lease)]) == [None]
    client.enqueue([entry("gap", 1), entry("fine", 0)])
    assert [one.job.domain for one in store.reserve([QUEUE], limit=9, lease_for=MINUTE)] == ["fine"]
    assert first.id != dead.id
    return dead.id


def entry(domain: str, offset: int) -> JobRequest:
    return JobRequest(type="book", queue=QUEUE, payload=offset, domain=domain, offset=offset)


def test_domains_are_listed_with_their_status(run, stopped):
    found = run("domain", "list", "--json").json
    assert [(one["domain"], one["status"], one["open"]) for one in found["items"]] == [
        ("broken", "halted", 1),
        ("fine", "running", 1),
        ("gap", "waiting", 1),
    ]
    assert found["cursor"] is None
    [halted] = run("domain", "list", "--halted", "--queue", QUEUE, "--json").json["items"]
    assert (halted["domain"], halted["halted_by"], halted["position"]) == ("broken", stopped, 2)
    [waiting] = run("domain", "list", "--waiting", "--json").json["items"]
    assert (waiting["waits_for"], waiting["is_overdue"], waiting["head_offset"]) == (0, True, 1)
    text = run("domain", "list").out
    assert f"dead job {stopped}" in text
    assert "waits for offset 0, overdue" in text


def test_the_list_has_pages(run, stopped):
    first = run("domain", "list", "--limit", "2", "--json").json
    rest = run("domain", "list", "--limit", "2", "--after", first["cursor"], "--json").json
    assert [one["domain"] for one in first["items"] + rest["items"]] == ["broken", "fine", "gap"]
    assert rest["cursor"] is None


def test_the_note_about_the_next_page_can_be_pasted_into_a_shell(run, stopped):
    note = run("domain", "list", "--limit", "1").err
    arguments = shlex.split(note.removeprefix("more: "))
    assert [one["domain"] for one in run("domain", "list", *arguments, "--json").json["items"]] == ["fine", "gap"]


def test_a_list_of_halted_and_waiting_domains_is_refused(run, stopped):
    refused = run("domain", "list", "--halted", "--waiting", code=2)
    assert "wanted one of --halted and --waiting, got both" in refused.err


def test_a_domain_is_shown(run, stopped):
    shown = run("domain", "show", QUEUE, "broken").out
    assert "halted by" in shown
    assert stopped in shown
    assert run("domain", "show", QUEUE, "gap", "--json").json["waits_for"] == 0
    assert "no domain nobody" in run("domain", "show", QUEUE, "nobody", code=4).err


def test_retry_runs_the_dead_job_again_and_is_logged(run, store, stopped, caplog):
    answer = run("domain", "retry", QUEUE, "broken", "--json").json
    assert (answer["changed"], answer["domain"]["head_id"]) == (True, stopped)
    [reservation] = store.reserve([QUEUE], limit=1, lease_for=MINUTE)
    assert (reservation.job.id, reservation.job.attempts) == (stopped, 1)
    [record] = [record for record in caplog.records if getattr(record, "event", "") == "domain.resumed"]
    assert (record.queue, record.domain, record.reason) == (QUEUE, "broken", "retry")


def test_skip_goes_on_with_the_next_job(run, store, stopped):
    assert "open" in run("domain", "skip", QUEUE, "broken").out
    [reservation] = store.reserve([QUEUE], limit=1, lease_for=MINUTE)
    assert reservation.job.offset == 2
    assert "is not halted" in run("domain", "skip", QUEUE, "broken", code=1).err
    assert run("domain", "resume", QUEUE, "nobody", code=4).err


def test_resume_with_a_position_passes_a_gap(run, store, stopped):
    assert run("domain", "resume", QUEUE, "gap", "--position", "1", "--json").json["changed"]
    [reservation] = store.reserve([QUEUE], limit=1, lease_for=MINUTE)
    assert (reservation.job.domain, reservation.job.offset) == ("gap", 1)


def test_forget_removes_ended_offsets_of_a_domain_without_open_jobs(run, store, stopped):
    assert "open jobs" in run("domain", "forget", QUEUE, "broken", "--yes", code=1).err
    run("domain", "skip", QUEUE, "broken")
    [reservation] = store.reserve([QUEUE], limit=1, lease_for=MINUTE)
    store.settle([Ack(reservation.lease)])
    assert "not confirmed" in run("domain", "forget", QUEUE, "broken", stdin="n\n", code=1).err
    assert run("domain", "forget", QUEUE, "broken", "--yes", "--json").json == {"forgotten": True}
    assert not Client(store).enqueue(entry("broken", 0)).existed
    assert "no domain" in run("domain", "forget", QUEUE, "nobody", "--yes", code=4).err


def test_order_changes_what_is_named_and_shows_the_rest(run, store):
    shown = run("queue", "order", QUEUE, "--new").out
    assert "gaps are passed" in shown
    options = ["--gaps", "wait", "--gap-report-after", "5m", "--gap-pass-after", "1h", "--on-exhausted", "halt"]
    text = run("queue", "order", QUEUE, *options, "--new").out
    assert "a dead job halts its domain, waits for gaps, overdue after 5m, passed after 1h" in text
    changed = run("queue", "order", QUEUE, "--gap-pass-after", "none", "--json").json["settings"]
    assert (changed["gaps"], changed["gap_report_after"], changed["gap_pass_after"]) == ("wait", 300.0, None)
    assert store.do(Settings(queue=QUEUE)).on_exhausted is OnExhausted.HALT
    assert "waits for gaps" in run("queue", "list", QUEUE).out


def test_enqueue_takes_an_offset_and_says_what_is_past(run, store):
    arguments = ("enqueue", "book", "1", "--queue", QUEUE, "--domain", "d", "--offset", "4")
    first = run(*arguments, "--json").json
    assert (first["existed"], first["past"]) == (False, False)
    assert "existed already" in run(*arguments).err
    [reservation] = store.reserve([QUEUE], limit=1, lease_for=MINUTE)
    assert reservation.job.offset == 4
    store.settle([Ack(reservation.lease)])
    again = run(*arguments)
    assert again.out.strip() == first["id"]
    assert "the offset has ended in this domain" in again.err
    assert run(*arguments, "--json").json["past"]
    assert "belongs to job" in run("enqueue", "book", "2", *arguments[3:], code=1).err
    assert run("enqueue", "book", "--offset", "4", code=2).err


def test_a_file_of_jobs_counts_those_that_are_past(run, store, folder):
    (folder / "jobs.jsonl").write_text(
        "".join(f'{{"queue": "{QUEUE}", "domain": "d", "offset": {offset}}}\n' for offset in range(3))
    )
    assert run("enqueue", "book", "--batch", "jobs.jsonl").out.strip() == "3 enqueued"
    [reservation] = store.reserve([QUEUE], limit=1, lease_for=MINUTE)
    store.settle([Ack(reservation.lease)])
    text = run("enqueue", "book", "--batch", "jobs.jsonl").out
    assert text.strip() == "0 enqueued, 3 existed already (1 of them have ended)"


def test_doctor_warns_of_domains_that_have_stopped(run, stopped):
    checks = {one["name"]: one for one in run("doctor", "--json").json["checks"]}
    assert (checks["halted"]["health"], checks["gaps"]["health"]) == ("note", "note")
    assert "broken in accounts" in checks["halted"]["text"]
    assert "gap in accounts" in checks["gaps"]["text"]


def test_the_metrics_of_a_store_count_domains_that_have_stopped(run, stopped):
    text = run("metrics").out
    assert 'holdfast_domains_halted{queue="accounts"} 1.0' in text
    assert 'holdfast_domain_gaps{queue="accounts"} 1.0' in text
