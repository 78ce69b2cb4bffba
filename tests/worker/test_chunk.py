"""Chunk handlers: one call for several jobs, with an outcome, a lease and a retry for each job."""

import os
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from holdfast.drivers.requests import Cancel
from holdfast.errors import InvalidInput
from holdfast.worker.control import Retry, Snooze, Unrecoverable
from tests.worker.conftest import ended


class Parcel(msgspec.Struct):
    weight: float


@pytest.fixture
def calls(tmp_path):
    """The payloads of each call of a handler, in any process: one line per call."""
    file = Path(tmp_path, "calls")

    def read():
        lines = file.read_text().splitlines() if file.exists() else []
        return [[int(number) for number in line.split()] for line in lines]

    def note(payloads):
        with file.open("a") as lines:
            lines.write(" ".join(map(str, payloads)) + "\n")

    read.note = note
    return read


def test_a_call_takes_all_waiting_jobs_up_to_its_chunk(app, drain, calls):
    @app.handler("double", chunk=50)
    def double(payloads):
        calls.note(payloads)
        time.sleep(0.02)  # so long that a worker would prefetch no second job for a handler without chunks
        return [payload * 2 for payload in payloads]

    answers = app.client.enqueue([double.request(number) for number in range(200)])
    assert drain(processes=1) == {"acked": 200}
    assert [app.client.result(answer.id) for answer in answers] == [number * 2 for number in range(200)]
    assert max(map(len, calls())) == 50
    assert len(calls()) <= 20
    assert sorted(number for call in calls() for number in call) == list(range(200))


def test_each_job_of_a_chunk_has_its_own_outcome(app, drain, calls):
    @app.handler("mixed", chunk=10, max_attempts=2)
    def mixed(payloads, contexts):
        calls.note(payloads)
        results = {
            1: Unrecoverable("never"),
            2: ValueError("again") if contexts[0].attempt == 1 else "better",
            3: Retry(after=timedelta(0)),
            4: KeyError("always"),
        }
        return [results.get(payload, contexts[index].job.id) for index, payload in enumerate(payloads)]

    answers = [mixed.enqueue(number) for number in range(5)]
    assert drain(processes=1) == {"acked": 2, "dead": 3, "retried": 3}
    states = [str(ended(app, answer).state) for answer in answers]
    assert states == ["done", "dead", "done", "dead", "dead"]
    assert app.client.result(answers[0].id) == answers[0].id
    assert ended(app, answers[4]).dead_reason == "attempts exhausted"
    assert calls()[0] == [0, 1, 2, 3, 4]
    assert sorted(calls()[1:]) == [[2], [3], [4]]  # a second attempt runs alone


def test_a_job_that_raises_fails_no_other_job_of_its_chunk_and_has_its_last_attempt_alone(app, drain, calls):
    @app.handler("fragile", chunk=16, max_attempts=2)
    def fragile(payloads):
        calls.note(payloads)
        if 11 in payloads:
            raise RuntimeError("poison")
        return payloads

    for number in range(16):
        fragile.enqueue(number)
    assert drain(processes=1) == {"acked": 15, "retried": 1, "dead": 1}
    assert sorted(len(payloads) for payloads in calls()) == [1, 1, 1, 2, 2, 4, 4, 8, 8, 16]


def test_snooze_holds_for_all_jobs_of_a_chunk(app, calls):
    @app.handler("busy", chunk=4)
    def busy(payloads):
        calls.note(payloads)
        raise Snooze(timedelta(hours=1))

    answer = busy.enqueue(1)
    assert app.worker().process_once().status == "released"
    assert app.client.get(answer.id).attempts == 0
    assert calls() == [[1]]


def test_a_crash_is_counted_for_all_jobs_of_a_chunk_and_then_each_runs_alone(app, drain, calls):
    @app.handler("deadly", chunk=8)
    def deadly(payloads):
        calls.note(payloads)
        if 3 in payloads:
            os._exit(1)
        return payloads

    answers = [deadly.enqueue(number) for number in range(8)]
    assert drain(processes=1)["acked"] == 7
    records = [ended(app, answer) for answer in answers]
    assert [str(record.state) for record in records] == ["dead" if n == 3 else "done" for n in range(8)]
    assert Counter(map(len, calls())) == {8: 1, 1: 9}  # the deadly job two more times


def test_a_timeout_ends_the_whole_call_and_then_each_job_runs_alone(app, drain, calls):
    @app.handler("slow", chunk=4, timeout=timedelta(milliseconds=500), max_attempts=2)
    def slow(payloads):
        calls.note(payloads)
        if 2 in payloads:
            threading.Event().wait(60)
        return payloads

    answers = [slow.enqueue(number) for number in range(4)]
    assert drain(processes=1) == {"retried": 4, "acked": 3, "dead": 1}
    assert [str(ended(app, answer).state) for answer in answers] == ["done", "done", "dead", "done"]
    assert "timed out" in ended(app, answers[2]).last_error


def test_a_cancel_of_one_job_releases_the_others_of_its_chunk(app, drain, calls):
    @app.handler("long", chunk=3)
    def long(payloads, contexts):
        calls.note(payloads)
        if len(payloads) == 3:
            threading.Event().wait(60)
        return payloads

    answers = [long.enqueue(number) for number in range(3)]

    def cancel():
        while not calls():
            time.sleep(0.01)
        app.driver.do(Cancel(job_ids=[answers[1].id]))

    thread = threading.Thread(target=cancel)
    thread.start()
    tally = drain(processes=1)
    thread.join()
    assert (tally["acked"], tally["cancelled"], tally["released"] >= 2) == (2, 1, True)
    assert [str(ended(app, answer).state) for answer in answers] == ["done", "cancelled", "done"]


def test_jobs_of_other_types_run_between_chunks(app, drain, calls):
    @app.handler("many", chunk=5)
    def many(payloads):
        calls.note(payloads)
        return payloads

    @app.handler("one")
    def one(payload):
        return payload

    requests = [(many if number % 7 else one).request(number) for number in range(70)]
    answers = app.client.enqueue(requests)
    assert drain() == {"acked": 70}
    assert [app.client.result(answer.id) for answer in answers] == list(range(70))
    assert max(map(len, calls())) <= 5


def test_each_payload_of_a_chunk_is_read_separately(app, drain):
    @app.handler("weigh", chunk=5)
    def weigh(parcels: list[Parcel]):
        return [parcel.weight for parcel in parcels]

    payloads = ({"weight": 2.5}, {"colour": "red"}, {"weight": 1})
    answers = app.client.enqueue([weigh.definition.request(payload) for payload in payloads])
    assert drain(processes=1) == {"acked": 2, "rejected": 1}
    assert app.client.result(answers[0].id) == 2.5
    assert ended(app, answers[1]).dead_reason == "bad payload"


def test_a_list_of_the_wrong_length_is_a_failure(app):
    @app.handler("short", chunk=5)
    async def short(payloads):
        return payloads[1:]

    answer = short.enqueue(1, retry=None)
    assert app.worker().process_once().status == "retried"
    assert "wanted 1, got 0" in app.client.get(answer.id).last_error


def test_chunks_with_concurrency_or_middleware_are_refused(app, drain):
    with pytest.raises(InvalidInput, match="chunk"):
        app.handler("none", chunk=0)(len)

    @app.handler("fine", chunk=2)
    def fine(payloads):
        return payloads

    with pytest.raises(InvalidInput, match="concurrency=1"):
        drain(concurrency=2)
    app.middleware(lambda _ctx, call_next: call_next())
    with pytest.raises(InvalidInput, match="middleware"):
        drain()
