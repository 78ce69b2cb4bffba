"""The byte budget of a reserve (L3)."""

from __future__ import annotations

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure
from holdfast.model.isolation import Isolation
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Release
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.isolation import isolated_and_other
from holdfast.testing.drivers.harness import QUEUE, Harness


def enqueue_sizes(h: Harness, *sizes: int) -> list[str]:
    """Enqueue one job for each size of a payload, in order; return the ids."""
    return [h.enqueue_job(payload=b"1" * size).id for size in sizes]


@case("L3")
def a_reserve_takes_no_more_bytes_than_its_budget(h: Harness) -> None:
    ids = enqueue_sizes(h, 10, 10, 10, 10)
    assert_equal(h.reserve_ids(10, max_bytes=30), ids[:3], "payloads of exactly the budget")
    assert_equal(h.reserve_ids(10, max_bytes=30), ids[3:], "the rest")


@case("L3")
def one_byte_over_the_budget_is_too_much(h: Harness) -> None:
    ids = enqueue_sizes(h, 10, 11, 1)
    assert_equal(h.reserve_ids(10, max_bytes=20), ids[:1], "the answer")


@case("L3", "L10")
def a_large_job_is_not_overtaken_by_smaller_ones(h: Harness) -> None:
    ids = enqueue_sizes(h, 10, 1000, 1, 1)
    assert_equal(h.reserve_ids(10, max_bytes=20), ids[:1], "before the large job")
    assert_equal(h.reserve_ids(10, max_bytes=1001), ids[1:3], "from the large job on")


@case("L3")
def the_first_job_is_returned_whatever_its_size(h: Harness) -> None:
    ids = enqueue_sizes(h, 100_000, 1)
    assert_equal(h.reserve_ids(10, max_bytes=1), ids[:1], "the answer")


@case("L3")
def the_limit_of_jobs_applies_with_a_budget(h: Harness) -> None:
    ids = enqueue_sizes(h, 1, 1, 1)
    assert_equal(h.reserve_ids(2, max_bytes=100), ids[:2], "the answer")


@case("L3", "L10", needs={Feature.PRIORITY})
def the_budget_is_spent_in_the_order_of_the_jobs(h: Harness) -> None:
    low = h.enqueue_job(payload=b"1" * 10)
    high = h.enqueue_job(payload=b"1" * 10, priority=9, type="other")
    assert_equal(h.reserve_ids(10, max_bytes=15), [high.id], "the first answer")
    assert_equal(h.reserve_ids(10, max_bytes=15), [low.id], "the second answer")


@case("L3", needs={Feature.LIMITS})
def a_job_that_does_not_fit_the_budget_does_not_use_the_rate(h: Harness) -> None:
    ids = enqueue_sizes(h, 10, 10)
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(rate=1, burst=2)))
    assert_equal(h.reserve_ids(10, max_bytes=10), ids[:1], "the first answer")
    assert_equal(h.reserve_ids(10, max_bytes=10), ids[1:], "the second answer")


@case("L3", "L7")
def the_budget_applies_to_jobs_that_run_beside_others(h: Harness) -> None:
    ids = enqueue_sizes(h, 10, 10, 10)
    assert_equal(h.reserve_ids(10, max_bytes=20, isolation=Isolation.SKIP), ids[:2], "the answer")


@case("L3", "L7")
def a_budget_does_not_change_what_happens_to_isolated_jobs(h: Harness) -> None:
    both = list(isolated_and_other(h))
    answers = {Isolation.STOP: [], Isolation.SKIP: both[1:], Isolation.ALONE: both[:1], Isolation.SHARE: both}
    for isolation, ids in answers.items():
        reserved = h.reserve(10, max_bytes=1000, isolation=isolation)
        assert_equal([reservation.job.id for reservation in reserved], ids, f"the answer to {isolation}")
        h.must_settle(*[Release(reservation.lease) for reservation in reserved])
