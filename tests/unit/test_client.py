"""The client against the memory driver: what it stores, in which pieces, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from holdfast import client as module
from holdfast.client import Client
from holdfast.clock import ManualClock
from holdfast.connect import connect
from holdfast.drivers.memory import MemoryDriver
from holdfast.errors import InvalidInput, PayloadError
from holdfast.model import bounds
from holdfast.model.definition import JobDefinition
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued
from holdfast.model.request import JobRequest
from holdfast.wire.records import to_job


class Recording(MemoryDriver):
    """A memory driver that remembers how many jobs came in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int | None = None) -> list[Enqueued]:
        self.batches.append(len(jobs))
        return super().enqueue(jobs, now=now)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def client(clock: ManualClock) -> Client:
    return Client(connect("memory://", clock=clock), clock=clock)


def test_one_request_gets_one_answer_and_can_be_looked_at(client: Client, clock: ManualClock):
    answer = client.enqueue(JobRequest(type="mail.send", payload={"to": "ada"}))
    assert answer == Enqueued(id=answer.id, existed=False)
    record = client.get(answer.id)
    assert record is not None
    assert (record.payload, record.created_at, record.state) == (b'{"to":"ada"}', clock.now(), State.READY)


def test_an_unknown_id_is_none(client: Client):
    assert client.get("nobody") is None


def test_a_list_gets_a_list_in_its_order(client: Client):
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


def test_the_same_key_makes_one_job_and_tells_of_another_payload(client: Client):
    first = client.enqueue(JobRequest(type="t", payload=1, idempotency_key="k"))
    same = client.enqueue(JobRequest(type="t", payload=1, idempotency_key="k"))
    other = client.enqueue(JobRequest(type="t", payload=2, idempotency_key="k"))
    assert same == Enqueued(id=first.id, existed=True)
    assert other == Enqueued(id=first.id, existed=True, conflict=True)


def test_a_long_list_is_stored_in_bounded_pieces():
    driver = Recording()
    answers = Client(driver).enqueue([JobRequest(type="t")] * (2 * module.BATCH + 1))
    assert driver.batches == [module.BATCH, module.BATCH, 1]
    assert len({answer.id for answer in answers}) == 2 * module.BATCH + 1
    assert module.BATCH <= bounds.MAX_BATCH


def test_large_payloads_make_smaller_pieces():
    driver = Recording()
    third = "x" * (module.BATCH_BYTES // 3 - 2)
    larger = "x" * (module.BATCH_BYTES + 1)
    requests = [JobRequest(type="t", payload=payload) for payload in (third, third, third, third, larger, 1)]
    Client(driver, max_payload=bounds.MAX_STORED_PAYLOAD).enqueue(requests)
    assert driver.batches == [3, 1, 1, 1]


def test_one_bad_payload_stores_nothing():
    driver = Recording()
    with pytest.raises(PayloadError, match="payload: wanted a JSON value"):
        Client(driver).enqueue([JobRequest(type="t"), JobRequest(type="t", payload=object())])
    assert driver.batches == []


@pytest.mark.parametrize("wrong", [JobDefinition(type="t"), {"type": "t"}, "t", ["t"], None, 1])
def test_what_is_no_request_is_refused(client: Client, wrong: object):
    with pytest.raises(InvalidInput, match="request: wanted a JobRequest"):
        client.enqueue(wrong)  # type: ignore[call-overload]


def test_the_size_of_payloads_is_the_clients_choice_within_bounds(client: Client):
    with pytest.raises(PayloadError, match=f"wanted at most {bounds.MAX_PAYLOAD} bytes"):
        client.enqueue(JobRequest(type="t", payload="x" * bounds.MAX_PAYLOAD))
    larger = Client(client.driver, max_payload=2 * bounds.MAX_PAYLOAD)
    assert not larger.enqueue(JobRequest(type="t", payload="x" * bounds.MAX_PAYLOAD)).existed
    with pytest.raises(InvalidInput, match="max_payload: wanted a whole number from 1 to"):
        Client(client.driver, max_payload=bounds.MAX_STORED_PAYLOAD + 1)


class Doubled:
    name = "doubled"

    def encode(self, value: object) -> bytes:
        return str(value).encode() * 2

    def decode(self, data: bytes) -> object:
        return data[: len(data) // 2].decode()


def test_a_codec_is_given_as_an_object_or_by_name(client: Client):
    mine = Client(client.driver, codec=Doubled())
    mine.enqueue(JobRequest(type="t", payload="ab"))
    [reservation] = client.driver.reserve(["default"], limit=1, lease_for=1)
    assert reservation.job.payload == b"abab"
    assert to_job(reservation, Doubled()).payload == "ab"
    with pytest.raises(InvalidInput, match=r"codec: wanted one of .*json.*, got 'pickle'"):
        Client(client.driver, codec="pickle")
