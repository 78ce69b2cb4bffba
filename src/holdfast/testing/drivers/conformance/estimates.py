"""Counting jobs in bounded time: what is small is counted exactly."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.clock import SECOND
from holdfast.drivers.answers import QueueCounts
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Counts
from holdfast.errors import InvalidInput
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Fail, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import QUEUE, Harness


def _estimate(
    h: Harness, queues: Sequence[str] | None = None, states: Collection[State] | None = None
) -> list[QueueCounts]:
    return h.store.do(Counts(queues=queues, states=states, estimate=True, now=h.now_or_none))


def _fill(h: Harness) -> None:
    """Make a job in every state, in several queues and types."""
    done, dead, retried = h.reserve_new_job(), h.reserve_new_job(type="other"), h.reserve_new_job()
    h.must_settle(Ack(done.lease), Fail(dead.lease, reason="no"), Retry(retried.lease, delay=3600 * SECOND))
    h.cancel(h.enqueue_job().id)
    h.reserve_new_job(lease_for=3600 * SECOND)
    h.enqueue_job(queue="second", priority=9)
    h.enqueue_job(type="other")
    h.advance(5 * SECOND)


@case("L9", needs={Feature.SCHEDULE, Feature.TYPES, Feature.JOBS, Feature.PRIORITY})
def a_small_space_is_counted_exactly(h: Harness) -> None:
    assert_equal(_estimate(h), [], "the numbers of an empty space")
    _fill(h)
    for states in (None, (State.READY,), (State.INFLIGHT, State.DEAD), (State.DONE, State.CANCELLED)):
        for queues in (None, [QUEUE], ["second"], ["unknown"]):
            wanted = h.store.do(Counts(queues=queues, states=states, now=h.now_or_none))
            found = _estimate(h, queues, states)
            assert_equal(found, wanted, f"the numbers of {queues} and {states}")
            ages = [[row.oldest_ready_age for row in rows] for rows in (found, wanted)]
            assert_equal(ages[0], ages[1], f"the ages of {queues} and {states}")
            assert_equal([row.is_estimate for row in found], [False] * len(found), "whether a number is an estimate")


@case("L11", needs={Feature.DOMAIN, Feature.JOBS})
def jobs_that_wait_for_their_turn_are_counted(h: Harness) -> None:
    for _ in range(3):
        h.enqueue_job(domain="d")
    h.reserve()
    [row] = _estimate(h)
    assert_equal((row.ready, row.inflight), (2, 1), "jobs that are ready and in flight")


@case("L9", needs={Feature.JOBS})
def estimates_refuse_what_counts_refuse(h: Harness) -> None:
    with assert_raises(InvalidInput, "a text as queues"):
        _estimate(h, "q")
    with assert_raises(InvalidInput, "an unknown state"):
        _estimate(h, states=["lost"])  # type: ignore[list-item]
