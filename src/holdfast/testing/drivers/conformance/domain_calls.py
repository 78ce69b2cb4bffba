"""Short calls for cases about the offsets of a domain."""

from __future__ import annotations

from typing import Any

from holdfast.drivers.capabilities import Feature
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued
from holdfast.model.settlement import Ack
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.harness import Harness

OFFSETS = {Feature.DOMAIN, Feature.OFFSET}


def job_at(h: Harness, offset: int | None, **fields: Any) -> JobRecord:
    """Return a new record of the domain ``d`` with this offset, not yet enqueued."""
    return h.job(**{"domain": "d", "offset": offset, **fields})


def enqueue_at(h: Harness, *offsets: int | None, **fields: Any) -> list[str]:
    """Enqueue one job of the domain ``d`` for each offset, each in its own call; return their ids."""
    jobs = [job_at(h, offset, **fields) for offset in offsets]
    for job in jobs:
        assert_equal(h.enqueue(job), [Enqueued(id=job.id, existed=False)], f"the answer for the offset {job.offset}")
    return [job.id for job in jobs]


def run_all(h: Harness) -> list[int | None]:
    """Run all jobs one at a time; return their offsets in the order in which they ran."""
    ran = []
    while reservations := h.reserve(10):
        assert_equal(len(reservations), 1, "jobs of the domain in flight")
        ran.append(reservations[0].job.offset)
        h.must_settle(Ack(reservations[0].lease))
    return ran


def end_offsets(h: Harness, *offsets: int) -> None:
    """Enqueue jobs of the domain ``d`` with these offsets, and run them."""
    h.enqueue(*[job_at(h, offset) for offset in offsets])
    assert_equal(run_all(h), sorted(offsets), "the offsets that ran")


def ask(h: Harness, offset: int, **fields: Any) -> Enqueued:
    """Enqueue a new record of the domain ``d`` with this offset; return the answer."""
    return h.enqueue(job_at(h, offset, **fields))[0]


def assert_past(h: Harness, offset: int, job_id: str, what: str) -> None:
    """Assert that an offset is past, and that its job is known by this id."""
    assert_equal(ask(h, offset), Enqueued(id=job_id, existed=True, past=True), what)
