"""The client on the memory and SQLite drivers: what it stores, in which batches, what it reads and what it refuses."""

from __future__ import annotations

import asyncio
import itertools
import math
import sqlite3
import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast import client as module
from holdfast.aio import AsyncClient
from holdfast.client import Client, poll_pauses
from holdfast.clock import SECOND, ManualClock
from holdfast.connect import connect
from holdfast.drivers.requests import Configure, Enqueue, Request
from holdfast.drivers.settle_one import ack, fail
from holdfast.enqueue_middleware import EnqueueMiddleware
from holdfast.errors import (
    EnqueueConflict,
    InvalidInput,
    JobNotDone,
    JobNotFound,
    PayloadError,
    Unsupported,
    WaitTimeout,
)
from holdfast.model import bounds
from holdfast.model.definition import JobDefinition
from holdfast.model.domain import DomainStatus, ResumeAction
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease
from holdfast.model.queue_settings import OnExhausted, QueueSettings
from holdfast.model.request import JobRequest
from holdfast.model.settlement import Fail, Retry
from holdfast.wire.records import to_job
from tests.in_memory import InMemory

A = TypeVar("A")


class RecordingDriver(InMemory):
    """A memory driver that records how many jobs each call had."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    def do(self, request: Request[A]) -> A:
        if isinstance(request, Enqueue):
            self.batches.append(len(request.jobs))
        return super().do(request)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path / 'jobs.db'}"}[request.param]


@pytest.fixture
def client(url: str, clock: ManualClock) -> Iterator[Client]:
    with connect(url, clock=clock) as store:
        yield Client(store, clock=clock)


def lease_next(client: Client) -> Lease:
    """Reserve the next job, and return its lease."""
    [reservation] = client.driver.reserve(["default"], limit=1, lease_for=SECOND)
    return reservation.lease


def test_one_request_has_one_answer_and_its_job_can_be_read(client: Client, clock: ManualClock):
    answer = client.enqueue(JobRequest(type="mail.send", payload={"to": "ada"}))
    assert answer == Enqueued(id=answer.id, existed=False)
    record = client.get(answer.id)
    assert record is not None
    assert (record.payload, record.created_at, record.state) == (b'{"to":"ada"}', clock.now(), State.READY)


def test_get_returns_none_for_an_unknown_id(client: Client):
    assert client.get("nobody") is None


def test_a_list_of_requests_has_a_list_of_answers_in_the_same_order(client: Client):
    answers = client.enqueue([JobRequest(type="t", payload=n) for n in range(5)])
    records = [client.get(answer.id) for answer in answers]
    assert [record and record.payload for record in records] == [b"0", b"1", b"2", b"3", b"4"]
    assert client.enqueue([]) == []


def test_a_delay_is_measured_from_the_clients_clock(client: Client, clock: ManualClock):
    answer = client.enqueue(JobRequest(type="t", delay=timedelta(seconds=3)))
    reserve = client.driver.reserve
    assert reserve(["default"], limit=1, lease_for=1) == []
    clock.advance(timedelta(seconds=3))
    [reservation] = reserve(["default"], limit=1, lease_for=1)
    assert reservation.job.id == answer.id


def test_the_same_key_makes_one_job(client: Client):
    first = client.enqueue(JobRequest(type="t", payload=1, idempotency_key="k"))
    same = client.enqueue(JobRequest(type="t", payload=1, idempotency_key="k"))
    assert same == Enqueued(id=first.id, existed=True)


def test_the_same_key_with_another_payload_raises_an_error_that_names_the_job(client: Client):
    first = client.enqueue(JobRequest(type="t", payload=1, idempotency_key="k"))
    with pytest.raises(EnqueueConflict, match=f"job {first.id}: wanted the payload that key 'k' was") as conflict:
        client.enqueue(JobRequest(type="t", payload=2, idempotency_key="k"))
    assert (conflict.value.job_id, conflict.value.key) == (first.id, "k")
    assert conflict.value.answers == (Enqueued(id=first.id, existed=True, conflict=True),)
    record = client.get(first.id)
    assert record is not None
    assert record.payload == b"1"


def test_a_conflict_in_a_list_is_raised_after_all_jobs_were_stored_and_carries_the_answers(client: Client):
    keys = ["a", "b", "a", "c", "b"]
    requests = [JobRequest(type="t", payload=n, idempotency_key=key) for n, key in enumerate(keys)]
    with pytest.raises(EnqueueConflict, match="the first of 2 conflicts in 5 jobs") as conflict:
        client.enqueue(requests)
    answers = conflict.value.answers
    assert [answer.conflict for answer in answers] == [False, False, True, False, True]
    assert (conflict.value.job_id, conflict.value.key) == (answers[0].id, "a")
    stored = [client.get(answers[index].id) for index in (0, 1, 3)]
    assert [record and record.payload for record in stored] == [b"0", b"1", b"3"]


def test_a_conflict_can_be_returned_instead_of_raised(client: Client):
    first = client.enqueue(JobRequest(type="t", payload=1, idempotency_key="k"))
    other = JobRequest(type="t", payload=2, idempotency_key="k")
    expected = Enqueued(id=first.id, existed=True, conflict=True)
    assert client.enqueue(other, on_conflict="return") == expected
    assert client.enqueue([other], on_conflict="return") == [expected]
    with pytest.raises(InvalidInput, match="on_conflict: wanted 'raise' or 'return', got ignore"):
        client.enqueue(other, on_conflict="ignore")  # type: ignore[call-overload]


def test_a_long_list_is_stored_in_bounded_batches():
    driver = RecordingDriver()
    answers = Client(driver).enqueue([JobRequest(type="t")] * (2 * module.MAX_BATCH_JOBS + 1))
    assert driver.batches == [module.MAX_BATCH_JOBS, module.MAX_BATCH_JOBS, 1]
    assert len({answer.id for answer in answers}) == 2 * module.MAX_BATCH_JOBS + 1
    assert module.MAX_BATCH_JOBS <= bounds.MAX_BATCH_ITEMS


def test_many_payloads_become_jobs_that_share_all_other_fields(client: Client):
    template = JobRequest(type="page.fetch", queue="pages", priority=3, meta={"source": "a list"})
    answers = client.enqueue_many(template, ({"page": number} for number in range(3)))
    records = [client.get(answer.id) for answer in answers]
    assert [record.payload for record in records if record] == [b'{"page":0}', b'{"page":1}', b'{"page":2}']
    assert {(r.type, r.queue, r.priority, r.meta["source"]) for r in records if r} == {
        ("page.fetch", "pages", 3, "a list")
    }


def test_each_of_many_payloads_has_its_own_key(client: Client):
    template = JobRequest(type="page.fetch")
    first = client.enqueue_many(template, [1, 2], keys=["a", "b"])
    with pytest.raises(EnqueueConflict) as caught:
        client.enqueue_many(template, [1, 3, 4], keys=["a", "b", "c"])
    assert [answer.existed for answer in caught.value.answers] == [True, True, False]
    assert [answer.id for answer in caught.value.answers[:2]] == [answer.id for answer in first]


def test_one_bad_payload_or_key_among_many_stores_nothing(client: Client):
    template = JobRequest(type="page.fetch")
    for wrong in (
        lambda: client.enqueue_many(template, [1, float("nan")]),
        lambda: client.enqueue_many(template, [1, 2], keys=["a"]),
        lambda: client.enqueue_many(template, [1, 2], keys=["a", "\n"]),
        lambda: client.enqueue_many(JobRequest(type="page.fetch", idempotency_key="all"), [1]),
        lambda: client.enqueue_many("page.fetch", [1]),  # type: ignore[arg-type]
        lambda: client.enqueue_many(template, "one payload"),
        lambda: client.enqueue_many(template, {"page": 1}),
        lambda: client.enqueue_many(template, 5),  # type: ignore[arg-type]
        lambda: client.enqueue_many(template, [1, 2], keys="ab"),
        lambda: client.enqueue_many(template, [1, 2], limit_keys="ab"),
    ):
        with pytest.raises(InvalidInput):
            wrong()
    assert not client.driver.find().items  # type: ignore[attr-defined]


def test_a_client_is_made_of_a_driver_not_of_a_url():
    for wrong in ("sqlite:///jobs.db", 5, None):
        with pytest.raises(InvalidInput, match=r"driver: wanted a driver, as connect\(url\) returns it"):
            Client(wrong)  # type: ignore[arg-type]


def test_many_payloads_are_stored_in_bounded_batches():
    driver = RecordingDriver()
    Client(driver).enqueue_many(JobRequest(type="t"), range(module.MAX_BATCH_JOBS + 1))
    assert driver.batches == [module.MAX_BATCH_JOBS, 1]


class ReadingDriver(InMemory):
    """Keeps no job, and records how many payloads of ``generate`` its client has read at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0
        self.read_at_calls: list[int] = []

    def enqueue(self, jobs: Sequence[JobRecord], **_: object) -> list[Enqueued]:
        self.read_at_calls.append(self.read)
        return [Enqueued(id=job.id, existed=False) for job in jobs]

    def generate(self, count: int) -> Iterator[str]:
        for _ in range(count):
            self.read += 1
            yield "x" * (module.MAX_BATCH_BYTES // 16 - 2)  # with its quotes: 16 of them are a batch


@pytest.mark.parametrize("middleware", [(), (lambda requests, call_next: call_next(requests),)])
def test_a_generator_is_read_and_held_one_batch_at_a_time(middleware: Sequence[EnqueueMiddleware]):
    driver = ReadingDriver()
    tracemalloc.start()
    try:
        answers = Client(driver, middleware=middleware).enqueue_many(
            JobRequest(type="t"), driver.generate(100), keys=map(str, range(100)), limit_keys=["k"] * 100
        )
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert driver.read_at_calls == [17, 33, 49, 65, 81, 97, 100]  # the first payload of the next batch is read, too
    assert len({answer.id for answer in answers}) == 100
    assert peak_bytes < 4 * module.MAX_BATCH_BYTES  # two batches, in buffers that are half as large again


def test_an_async_client_reads_a_generator_one_batch_at_a_time():
    driver = ReadingDriver()
    asyncio.run(AsyncClient(driver).enqueue_many(JobRequest(type="t"), driver.generate(20)))
    assert driver.read_at_calls == [17, 20]


def test_an_error_after_the_first_batch_leaves_it_stored_and_keys_make_a_repetition_safe(client: Client):
    template, full = JobRequest(type="t"), module.MAX_BATCH_JOBS
    count = full + 2

    def generate(last: object) -> Iterator[object]:
        yield from range(count - 1)
        yield last

    for keys, last, message in (
        (count, math.nan, "payload"),
        (count - 1, 1, "keys: wanted one for each payload, got fewer"),
        (count + 1, 1, "keys: wanted one for each payload, got more"),
    ):
        with pytest.raises(InvalidInput, match=message):
            client.enqueue_many(template, generate(last), keys=map(str, range(keys)))
        [counts] = client.driver.counts()  # type: ignore[attr-defined]
        assert counts.ready == full
    answers = client.enqueue_many(template, generate(last=1), keys=map(str, range(count)))
    assert [answer.existed for answer in answers] == [True] * full + [False] * 2
    with pytest.raises(EnqueueConflict, match=f"the first of 2 conflicts in {count} jobs") as conflict:
        client.enqueue_many(template, [2, *range(1, count - 1), 2], keys=map(str, range(count)))
    assert (conflict.value.job_id, conflict.value.key) == (answers[0].id, "0")
    assert [answer.id for answer in conflict.value.answers] == [answer.id for answer in answers]


def test_large_payloads_make_smaller_batches():
    driver = RecordingDriver()
    third = "x" * (module.MAX_BATCH_BYTES // 3 - 2)
    larger = "x" * (module.MAX_BATCH_BYTES + 1)
    requests = [JobRequest(type="t", payload=payload) for payload in (third, third, third, third, larger, 1)]
    Client(driver, max_payload=bounds.MAX_STORED_PAYLOAD_BYTES).enqueue(requests)
    assert driver.batches == [3, 1, 1, 1]


def test_one_bad_payload_stores_nothing():
    driver = RecordingDriver()
    with pytest.raises(PayloadError, match="payload: wanted a JSON value"):
        Client(driver).enqueue([JobRequest(type="t"), JobRequest(type="t", payload=object())])
    assert driver.batches == []


@pytest.mark.parametrize("wrong", [JobDefinition(type="t"), {"type": "t"}, "t", ["t"], None, 1])
def test_a_value_that_is_not_a_request_is_refused(client: Client, wrong: object):
    with pytest.raises(InvalidInput, match="request: wanted a JobRequest"):
        client.enqueue(wrong)  # type: ignore[call-overload]


def test_the_client_chooses_the_largest_payload_within_bounds(client: Client):
    with pytest.raises(PayloadError, match=f"wanted at most {bounds.MAX_PAYLOAD_BYTES} bytes .* pass its address"):
        client.enqueue(JobRequest(type="t", payload="x" * bounds.MAX_PAYLOAD_BYTES))
    larger = Client(client.driver, max_payload=2 * bounds.MAX_PAYLOAD_BYTES)
    assert not larger.enqueue(JobRequest(type="t", payload="x" * bounds.MAX_PAYLOAD_BYTES)).existed
    with pytest.raises(InvalidInput, match="max_payload: wanted a whole number from 1 to"):
        Client(client.driver, max_payload=bounds.MAX_STORED_PAYLOAD_BYTES + 1)


class Doubled:
    name = "doubled"

    def encode(self, value: object) -> bytes:
        return str(value).encode() * 2

    def decode(self, data: bytes) -> object:
        return data[: len(data) // 2].decode()


def test_a_codec_is_given_as_an_object_or_by_name(client: Client):
    doubling = Client(client.driver, codec=Doubled())
    doubling.enqueue(JobRequest(type="t", payload="ab"))
    [reservation] = client.driver.reserve(["default"], limit=1, lease_for=1)
    assert reservation.job.payload == b"abab"
    assert to_job(reservation, Doubled()).payload == "ab"
    with pytest.raises(InvalidInput, match=r"codec: wanted one of .*json.*, got 'pickle'"):
        Client(client.driver, codec="pickle")


# In the caller's transaction --------------------------------------------------------------------------------


def test_jobs_enqueued_on_a_connection_exist_once_the_caller_commits(tmp_path: Path):
    path = tmp_path / "shop.db"
    with connect(f"sqlite:///{path}") as store, closing(sqlite3.connect(path)) as connection:
        client = Client(store)
        one = client.enqueue(JobRequest(type="t"), connection=connection)
        [two, three] = client.enqueue([JobRequest(type="t")] * 2, connection=connection)
        assert client.get(one.id) is None
        connection.commit()
        assert all(client.get(answer.id) for answer in (one, two, three))
        lost = client.enqueue(JobRequest(type="t"), connection=connection)
        connection.rollback()
        assert client.get(lost.id) is None


def test_a_store_without_transactions_refuses_a_connection():
    with pytest.raises(Unsupported, match="memory driver does not offer enqueue in the caller's transaction"):
        Client(connect("memory://")).enqueue(JobRequest(type="t"), connection=object())


def test_a_joined_driver_only_enqueues(tmp_path: Path):
    path = tmp_path / "shop.db"
    with connect(f"sqlite:///{path}") as store, closing(sqlite3.connect(path)) as connection:
        joined = Client(store.joined(connection))
        for call in (joined.get, joined.cancel, joined.result, lambda job_id: joined.wait(job_id, timeout=0)):
            with pytest.raises(Unsupported, match="any verb but enqueue"):
                call("j1")


# Waiting, cancelling, results -------------------------------------------------------------------------------


def test_wait_returns_the_job_once_it_has_ended(client: Client):
    answer = client.enqueue(JobRequest(type="t"))
    lease = lease_next(client)
    records: list[JobRecord] = []
    waiter = threading.Thread(target=lambda: records.append(client.wait(answer.id, timeout=60)))
    waiter.start()
    ack(client.driver, lease, result=b'{"sent":3}')
    waiter.join()
    assert [record.state for record in records] == [State.DONE]
    assert client.result(records[0]) == {"sent": 3}


def test_wait_returns_at_once_for_a_job_that_has_ended(client: Client):
    dead, cancelled = client.enqueue([JobRequest(type="t")] * 2)
    fail(client.driver, lease_next(client), reason="no use")
    client.cancel(cancelled.id)
    assert client.wait(dead.id, timeout=0).dead_reason == "no use"
    assert client.wait(cancelled.id, timeout=None).state is State.CANCELLED


@pytest.mark.parametrize("timeout", [0, 0.01, timedelta(milliseconds=10)])
def test_a_wait_that_times_out_reports_the_last_state(client: Client, timeout: timedelta | float):
    answer = client.enqueue(JobRequest(type="t"))
    lease_next(client)
    with pytest.raises(WaitTimeout, match="wanted it to end within the timeout, it is inflight") as timed_out:
        client.wait(answer.id, timeout=timeout)
    assert (timed_out.value.job_id, timed_out.value.state) == (answer.id, State.INFLIGHT)
    assert isinstance(timed_out.value, TimeoutError)


def test_an_unknown_job_can_be_neither_waited_for_nor_cancelled(client: Client):
    for call in (client.cancel, client.result, lambda job_id: client.wait(job_id, timeout=None)):
        with pytest.raises(JobNotFound, match="job nobody: wanted a job of this space") as unknown:
            call("nobody")
        assert unknown.value.job_id == "nobody"


@pytest.mark.parametrize("wrong", [-1, -0.001, math.nan, timedelta(seconds=-1), "1"])
def test_an_invalid_timeout_is_refused_before_the_store_is_read(client: Client, wrong):
    with pytest.raises(InvalidInput, match="timeout: wanted a timedelta, seconds from 0, or None for no limit"):
        client.wait("nobody", timeout=wrong)


def test_poll_pauses_grow_and_the_last_one_ends_at_the_deadline():
    now = [1000.0]
    pauses = []
    for pause in poll_pauses(1, lambda: now[0]):
        pauses.append(pause)
        now[0] += pause
    assert pauses[:3] == pytest.approx([0.002, 0.003, 0.0045])
    assert max(pauses) == module.MAX_POLL_SECONDS
    assert now[0] == pytest.approx(1001)
    assert sorted(pauses[:-1]) == pauses[:-1]


def test_poll_pauses_without_a_timeout_have_no_end():
    assert list(itertools.islice(poll_pauses(None), 1000))[-1] == module.MAX_POLL_SECONDS
    assert list(poll_pauses(0)) == []


def test_cancel_ends_a_waiting_job_and_asks_a_running_one_to_stop(client: Client):
    running, waiting = client.enqueue([JobRequest(type="t")] * 2)
    lease = lease_next(client)
    assert client.cancel(running.id) is State.INFLIGHT
    assert client.cancel(waiting.id) is State.CANCELLED
    fail(client.driver, lease, reason="stopped")
    assert client.wait(running.id, timeout=0).state is State.CANCELLED
    assert client.cancel(running.id) is State.CANCELLED


def test_a_job_whose_handler_returned_none_has_the_result_none(client: Client):
    answer = client.enqueue(JobRequest(type="t"))
    ack(client.driver, lease_next(client))
    assert client.result(answer.id) is None


def test_a_job_that_is_not_done_has_no_result(client: Client):
    answer = client.enqueue(JobRequest(type="t"))
    with pytest.raises(JobNotDone, match="wanted it done, it is ready"):
        client.result(answer.id)
    fail(client.driver, lease_next(client), reason="no use", error="ValueError: 1")
    with pytest.raises(JobNotDone, match=r"wanted it done, it is dead: no use; last error: ValueError: 1$") as dead:
        client.result(answer.id)
    assert (dead.value.state, dead.value.reason, dead.value.error) == (State.DEAD, "no use", "ValueError: 1")


def test_a_job_that_waits_for_its_next_attempt_says_why_the_last_one_failed(client: Client):
    answer = client.enqueue(JobRequest(type="t"))
    error = f'KeyError: {"k" * 9999}\n  File "/a.py", line 3, in f\nfrom OSError: no'
    client.driver.settle([Retry(lease_next(client), error=error)])
    with pytest.raises(JobNotDone) as ready:
        client.result(answer.id)
    text = str(ready.value)
    assert f"job {answer.id}: wanted it done, it is ready; last error: KeyError: kkk" in text
    assert "\n" not in text
    assert len(text) < 400
    assert ready.value.error == error
    error = 'Traceback (most recent call last):\n  File "/a.py", line 3, in f\nOSError: no'
    client.driver.settle([Retry(lease_next(client), error=error)])
    with pytest.raises(JobNotDone, match=r"it is ready; last error: OSError: no$"):
        client.result(answer.id)


def test_the_result_of_what_is_neither_an_id_nor_a_record_is_refused(client: Client):
    answer = client.enqueue(JobRequest(type="t"))
    for wrong in (answer, None, 5):
        with pytest.raises(InvalidInput, match="id: wanted"):
            client.result(wrong)  # type: ignore[arg-type]


def test_a_result_that_is_not_json_cannot_be_read(client: Client):
    answer = client.enqueue(JobRequest(type="t"))
    ack(client.driver, lease_next(client), result=b"\xff")
    with pytest.raises(PayloadError, match="result: wanted JSON"):
        client.result(answer.id)


def test_domains_are_listed_resumed_and_forgotten(client):
    client.driver.do(Configure(queue="q", settings=QueueSettings(on_exhausted=OnExhausted.HALT)))
    request = JobRequest(type="t", queue="q", domain="d", offset=3)
    job = client.enqueue(request)
    [reservation] = client.driver.reserve(["q"], limit=1, lease_for=SECOND)
    client.driver.settle([Fail(reservation.lease, "no")])
    [halted] = client.domains("q", status=DomainStatus.HALTED)
    assert halted.halted_by == job.id
    assert client.resume_domain("q", "d", ResumeAction.SKIP)
    assert not client.resume_domain("q", "d")
    assert client.enqueue(request).past
    assert client.forget_domain("q", "d")
    assert not client.enqueue(request).existed


def test_a_conflict_names_the_offset(client):
    client.enqueue(JobRequest(type="t", payload=1, domain="d", offset=3))
    with pytest.raises(EnqueueConflict, match="the payload that offset 3 was first used with") as caught:
        client.enqueue(JobRequest(type="t", payload=2, domain="d", offset=3))
    assert (caught.value.key, caught.value.offset) == (None, 3)


def test_many_jobs_do_not_share_one_offset(client):
    with pytest.raises(InvalidInput, match="offset"):
        client.enqueue_many(JobRequest(type="t", domain="d", offset=3), [1, 2])
