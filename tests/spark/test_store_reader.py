"""Which ended jobs a sync finds, in how many calls."""

from __future__ import annotations

import random

import pytest

from holdfast.drivers.contract import JobFilter, Page
from holdfast.drivers.memory import MemoryDriver
from holdfast.model.job import JobRecord
from holdfast.model.settlement import Ack
from holdfast.spark.history import store_reader


class Counting(MemoryDriver):
    """Counts how often it is asked."""

    calls = 0

    def get(self, job_id: str) -> JobRecord | None:
        self.calls += 1
        return super().get(job_id)

    def find(self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None) -> Page[JobRecord]:
        self.calls += 1
        return super().find(where, limit=limit, after=after)


def store_of(ended: int) -> Counting:
    store = Counting()
    store.enqueue(
        [JobRecord(id=f"{number:06}", type="t", queue="q", payload=b"", created_at=1) for number in range(ended)]
    )
    store.settle([Ack(held.lease) for held in store.reserve(["q"], limit=ended, lease_for=10**6)])
    return store


def test_jobs_that_ended_together_are_read_by_the_page():
    store = store_of(5000)
    found = store_reader._ended(store, [f"{number:06}" for number in range(1000, 5000)])
    assert [job.id for job in found] == [f"{number:06}" for number in range(1000, 5000)]
    assert store.calls < 20


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5, 0.99])
def test_whatever_share_is_wanted_each_is_found_once_and_the_gone_are_left_out(share):
    store, dice = store_of(3000), random.Random(share)
    wanted = [f"{number:06}" for number in range(3000) if dice.random() < share] + ["000000", "002999"]
    gone = ["000500x", "999999", "000000a"]
    found = store_reader._ended(store, dice.sample([*dict.fromkeys(wanted), *gone], k=len(dict.fromkeys(wanted)) + 3))
    assert [job.id for job in found] == sorted(dict.fromkeys(wanted))


def test_nothing_wanted_asks_nothing():
    store = store_of(1)
    assert (store_reader._ended(store, []), store.calls) == ([], 0)
