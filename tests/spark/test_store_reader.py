"""Which ended jobs a sync reads, and with how many calls of the store."""

from __future__ import annotations

import random

import pytest

from holdfast.clock import MINUTE
from holdfast.drivers.answers import Page
from holdfast.drivers.requests import Requeue
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord, State
from holdfast.model.settlement import Ack, Fail
from holdfast.spark.history import store_reader
from tests.in_memory import InMemory


class CountingDriver(InMemory):
    """Counts the calls of get and find."""

    calls = 0

    def get(self, job_id: str) -> JobRecord | None:
        self.calls += 1
        return super().get(job_id)

    def find(self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None) -> Page[JobRecord]:
        self.calls += 1
        return super().find(where, limit=limit, after=after)


def store_with(ended: int) -> CountingDriver:
    store = CountingDriver()
    store.enqueue(
        [JobRecord(id=f"{number:06}", type="t", queue="q", payload=b"", created_at=1) for number in range(ended)]
    )
    store.settle([Ack(held.lease) for held in store.reserve(["q"], limit=ended, lease_for=MINUTE)])
    return store


def test_jobs_that_ended_together_are_read_in_pages():
    store = store_with(5000)
    records = store_reader._read_ended(store, [f"{number:06}" for number in range(1000, 5000)])
    assert [job.id for job in records] == [f"{number:06}" for number in range(1000, 5000)]
    assert store.calls < 20


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5, 0.99])
def test_each_wanted_job_is_returned_once_and_purged_jobs_are_left_out(share):
    store, dice = store_with(3000), random.Random(share)
    wanted = [f"{number:06}" for number in range(3000) if dice.random() < share] + ["000000", "002999"]
    purged = ["000500x", "999999", "000000a"]
    records = store_reader._read_ended(
        store, dice.sample([*dict.fromkeys(wanted), *purged], k=len(dict.fromkeys(wanted)) + 3)
    )
    assert [job.id for job in records] == sorted(dict.fromkeys(wanted))


class RequeueingDriver(InMemory):
    """A job is requeued and runs again after its ledger row was read, and before its record is."""

    moves = 1

    def get(self, job_id: str) -> JobRecord | None:
        if self.moves:
            self.moves -= 1
            assert self.do(Requeue(job_ids=[job_id])) == [True]
            self.settle([Ack(held.lease) for held in self.reserve(["q"], limit=1, lease_for=MINUTE)])
        return super().get(job_id)


def test_a_job_that_changes_while_it_is_read_is_as_the_last_row_left_it():
    store = RequeueingDriver()
    store.enqueue([JobRecord(id="a", type="t", queue="q", payload=b"", created_at=1)])
    store.settle([Fail(held.lease, reason="x") for held in store.reserve(["q"], limit=1, lease_for=MINUTE)])
    [chunk] = store_reader.read_chunks(store, None)
    assert [str(row.ending) for row in chunk.rows] == ["failed", "requeued", "acked"]
    assert [(job.id, job.state) for job in chunk.records] == [("a", State.DONE)]
    [rest] = store_reader.read_chunks(store, chunk.cursor)
    assert (rest.rows, rest.records) == ([], [])


def test_without_ids_the_store_is_not_called():
    store = store_with(1)
    assert (store_reader._read_ended(store, []), store.calls) == ([], 0)
