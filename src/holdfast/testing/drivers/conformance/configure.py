"""Pause, concurrency and rate limits, which reserve applies exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.clock import HOUR, MILLISECOND, SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Settings
from holdfast.model import bounds
from holdfast.model.job import State
from holdfast.model.queue_settings import TYPE_LIMIT_FIELDS, LimitOrigin, QueueSettings
from holdfast.model.settlement import Ack, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

LIMITS = {Feature.LIMITS}


def _configure(h: Harness, *, queue: str = QUEUE, type: str | None = None, **fields: Any) -> None:
    h.store.do(Configure(queue=queue, settings=QueueSettings(**fields), type=type))


def _fill(h: Harness, count: int, **fields: Any) -> list[str]:
    return [h.enqueue_job(**fields).id for _ in range(count)]


def _reserve_for_ten_seconds(h: Harness) -> int:
    """Reserve every 100 milliseconds, 100 times; return the number of jobs."""
    total = 0
    for _ in range(100):
        total += len(h.reserve(10, lease_for=HOUR))
        h.advance(100 * MILLISECOND)
    return total


@case("L3", needs=LIMITS | {Feature.KEY})
def settings_are_stored_per_queue_and_type(h: Harness) -> None:
    assert_equal(h.store.do(Settings(queue=QUEUE)), QueueSettings(), "the settings of a new queue")
    queue_settings = QueueSettings(paused_until=5, max_inflight=3, rate=2.5, burst=7, dedupe_window=SECOND)
    type_settings = QueueSettings(max_inflight=1, held_until=7, probing=True)
    h.store.do(Configure(queue=QUEUE, settings=queue_settings))
    h.store.do(Configure(queue=QUEUE, settings=type_settings, type="a"))
    assert_equal(h.store.do(Settings(queue=QUEUE)), queue_settings, "of the queue")
    assert_equal(h.store.do(Settings(queue=QUEUE, type="a")), type_settings, "of the type")
    assert_equal(h.store.do(Settings(queue=QUEUE, type="b")), QueueSettings(), "of another type")
    assert_equal(h.store.do(Settings(queue="other")), QueueSettings(), "of another queue")
    assert_equal(h.connect_again().do(Settings(queue=QUEUE)), queue_settings, "seen by another connection")


@case("L3", needs=LIMITS)
def configure_replaces_all_settings_of_the_queue(h: Harness) -> None:
    _configure(h, max_inflight=3, rate=1)
    _configure(h, max_inflight=4)
    assert_equal(h.store.do(Settings(queue=QUEUE)), QueueSettings(max_inflight=4), "the settings")


@case("L3", needs=LIMITS | {Feature.KEY})
def configure_with_only_keeps_the_other_settings(h: Harness) -> None:
    _configure(h, paused_until=5, max_inflight=3, rate=2, burst=4)
    h.store.do(
        Configure(queue=QUEUE, settings=QueueSettings(held_until=9, probing=True), only=("held_until", "probing"))
    )
    wanted = QueueSettings(paused_until=5, max_inflight=3, rate=2, burst=4, held_until=9, probing=True)
    assert_equal(h.store.do(Settings(queue=QUEUE)), wanted, "after the hold")
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(rate=7), only=("rate", "burst")))
    assert_equal(h.store.do(Settings(queue=QUEUE)), replace(wanted, rate=7, burst=None), "after the new rate")
    h.store.do(
        Configure(queue="new", settings=QueueSettings(max_inflight=2, dedupe_window=SECOND), only=("max_inflight",))
    )
    assert_equal(h.store.do(Settings(queue="new")), QueueSettings(max_inflight=2), "of a queue without settings")


@case("L3", needs=LIMITS)
def proposed_limits_replace_none_of_a_higher_origin(h: Harness) -> None:
    def propose(rate: float, limits_from: LimitOrigin) -> QueueSettings:
        h.store.do(
            Configure(queue=QUEUE, settings=QueueSettings(rate=rate, limits_from=limits_from), only=TYPE_LIMIT_FIELDS)
        )
        return h.store.do(Settings(queue=QUEUE))

    of_handler = QueueSettings(rate=2, limits_from=LimitOrigin.HANDLER)
    of_settings = QueueSettings(rate=4, limits_from=LimitOrigin.SETTINGS)
    assert_equal(propose(1, LimitOrigin.HANDLER), replace(of_handler, rate=1), "of the handler")
    assert_equal(propose(2, LimitOrigin.HANDLER), of_handler, "of a later version of the handler")
    assert_equal(propose(3, LimitOrigin.SETTINGS), replace(of_settings, rate=3), "of the settings")
    assert_equal(propose(4, LimitOrigin.SETTINGS), of_settings, "of other settings")
    assert_equal(propose(5, LimitOrigin.HANDLER), of_settings, "of the settings, after the handler")
    h.store.do(
        Configure(
            queue=QUEUE,
            settings=QueueSettings(limits_from=LimitOrigin.OPERATOR),
            only=("max_inflight", "rate", "burst"),
        )
    )
    for origin in (LimitOrigin.HANDLER, LimitOrigin.SETTINGS):
        assert_equal(propose(6, origin), QueueSettings(limits_from=LimitOrigin.OPERATOR), f"after the {origin}")
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(), only=TYPE_LIMIT_FIELDS))
    assert_equal(propose(2, LimitOrigin.HANDLER), of_handler, "after the operator has given the limits back")


@case("L3", needs=LIMITS)
def limits_that_are_changed_without_an_origin_are_an_operators(h: Harness) -> None:
    proposed = QueueSettings(rate=2, max_inflight=3, limits_from=LimitOrigin.SETTINGS)
    h.store.do(Configure(queue=QUEUE, settings=proposed))
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(held_until=9), only=("held_until",)))
    assert_equal(h.store.do(Settings(queue=QUEUE)), replace(proposed, held_until=9), "after a hold")
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(max_inflight=1), only=("max_inflight",)))
    changed = QueueSettings(rate=2, max_inflight=1, held_until=9)
    assert_equal(h.store.do(Settings(queue=QUEUE)), changed, "after a change of one limit")
    h.store.do(Configure(queue=QUEUE, settings=proposed, only=TYPE_LIMIT_FIELDS))
    assert_equal(h.store.do(Settings(queue=QUEUE)), changed, "after the same proposal again")


@case("L3", needs=LIMITS)
def no_job_of_a_held_queue_is_reserved_before_the_hold_ends(h: Harness) -> None:
    [job] = _fill(h, 1)
    _configure(h, held_until=h.now + SECOND)
    h.advance(SECOND - 1)
    assert_equal(h.reserve(), [], "reserved one microsecond before the end")
    h.advance(1)
    assert_equal(h.reserve_ids(), [job], "reserved at the end")


@case("L3", needs=LIMITS)
def the_later_of_a_pause_and_a_hold_applies(h: Harness) -> None:
    [job] = _fill(h, 1)
    _configure(h, paused_until=h.now + 2 * SECOND, held_until=h.now + SECOND)
    h.advance(SECOND)
    assert_equal(h.reserve(), [], "reserved while paused")
    _configure(h, paused_until=h.now, held_until=h.now + SECOND)
    assert_equal(h.reserve(), [], "reserved while held")
    h.advance(SECOND)
    assert_equal(h.reserve_ids(), [job], "reserved after both")


@case("L3", needs=LIMITS)
def while_a_queue_is_probing_one_job_at_a_time_is_in_flight(h: Harness) -> None:
    jobs = _fill(h, 3)
    _configure(h, max_inflight=2, probing=True)
    probes = h.reserve(3)
    assert_equal([probe.job.id for probe in probes], jobs[:1], "the probe")
    assert_equal(h.reserve(3), [], "beside the probe")
    h.must_settle(Ack(probes[0].lease))
    assert_equal(h.reserve_ids(3), jobs[1:2], "the next probe")
    _configure(h, max_inflight=2)
    assert_equal(h.reserve_ids(3), jobs[2:], "after probing, within the limit")


@case("L3", needs=LIMITS)
def no_job_of_a_paused_queue_is_reserved_until_the_queue_is_resumed(h: Harness) -> None:
    [job] = _fill(h, 1)
    _configure(h, paused_until=bounds.MAX_INSTANT)
    h.advance(HOUR)
    assert_equal(h.reserve(), [], "reserved while paused")
    _configure(h)
    assert_equal(h.reserve_ids(), [job], "reserved after the resume")


@case("L3", needs=LIMITS)
def a_pause_does_not_block_other_queues(h: Harness) -> None:
    _fill(h, 1, queue="a")
    [other] = _fill(h, 1, queue="b")
    _configure(h, queue="a", paused_until=bounds.MAX_INSTANT)
    assert_equal(h.reserve_ids(5, queues=["a", "b"]), [other], "reserved")


@case("L3", needs=LIMITS | {Feature.TYPES, Feature.PRIORITY})
def a_paused_type_does_not_block_other_types(h: Harness) -> None:
    _fill(h, 2, type="a", priority=9)
    other = _fill(h, 2, type="b")
    _configure(h, type="a", paused_until=bounds.MAX_INSTANT)
    assert_equal(h.reserve_ids(5), other, "reserved")


@case("L3", needs=LIMITS)
def a_paused_queue_accepts_settlements_and_new_jobs(h: Harness) -> None:
    reservation = h.reserve_new_job()
    _configure(h, paused_until=bounds.MAX_INSTANT)
    h.enqueue_job()
    h.must_extend(reservation.lease)
    h.must_settle(Ack(reservation.lease))
    assert_equal(h.state(reservation.job.id), State.DONE, "the state")


@case("L3", "L7", needs=LIMITS)
def a_paused_queue_is_still_reaped(h: Harness) -> None:
    reservation = h.reserve_new_job()
    _configure(h, paused_until=bounds.MAX_INSTANT)
    h.advance(LEASE)
    assert_equal(h.reserve(), [], "reserved")
    assert_equal(h.state(reservation.job.id), State.READY, "the state")


@case("L3", needs=LIMITS)
def max_inflight_limits_one_batch(h: Harness) -> None:
    jobs = _fill(h, 5)
    _configure(h, max_inflight=2)
    assert_equal(h.reserve_ids(5), jobs[:2], "the first batch")
    assert_equal(h.reserve(5), [], "the next")


@case("L3", needs=LIMITS)
def max_inflight_counts_jobs_that_are_already_in_flight(h: Harness) -> None:
    jobs = _fill(h, 5)
    assert_equal(h.reserve_ids(1), jobs[:1], "without a limit")
    _configure(h, max_inflight=3)
    assert_equal(h.reserve_ids(5), jobs[1:3], "up to the limit")


@case("L3", needs=LIMITS)
def every_ending_frees_capacity(h: Harness) -> None:
    _fill(h, 5)
    _configure(h, max_inflight=1)
    for ending in (Ack, Retry, Release):
        h.must_settle(ending(h.reserve_one().lease))
    h.reserve_one()
    assert_equal(h.reserve(), [], "reserved while no capacity is free")
    h.advance(LEASE)
    assert_equal(len(h.reserve()), 1, "jobs reserved when the lease has expired")


@case("L3", needs=LIMITS)
def max_inflight_counts_its_own_queue_only(h: Harness) -> None:
    h.reserve_new_job(queue="other")
    job = h.enqueue_job()
    _configure(h, max_inflight=1)
    assert_equal(h.reserve_ids(), [job.id], "reserved")


@case("L3", needs=LIMITS | {Feature.TYPES})
def max_inflight_of_a_type_does_not_block_other_types(h: Harness) -> None:
    first, _, _ = _fill(h, 3, type="a")
    others = _fill(h, 2, type="b")
    _configure(h, type="a", max_inflight=1)
    assert_equal(h.reserve_ids(5), [first, *others], "reserved")
    assert_equal(h.reserve(5), [], "reserved again")


@case("L3", needs=LIMITS | {Feature.TYPES})
def the_limits_of_queue_and_type_apply_together(h: Harness) -> None:
    a = _fill(h, 3, type="a")
    b = _fill(h, 3, type="b")
    _configure(h, max_inflight=3)
    _configure(h, type="a", max_inflight=2)
    assert_equal(h.reserve_ids(10), [*a[:2], b[0]], "reserved")


@case("L3", needs=LIMITS | {Feature.TYPES})
def the_limit_of_a_queue_applies_across_all_types(h: Harness) -> None:
    jobs = [h.enqueue_job(type=type_).id for type_ in ("a", "b", "c")]
    _configure(h, max_inflight=2)
    assert_equal(h.reserve_ids(10), jobs[:2], "reserved")


@case("L3", needs=LIMITS | {Feature.PRIORITY})
def free_capacity_goes_to_the_highest_priority(h: Harness) -> None:
    _fill(h, 2)
    [high] = _fill(h, 1, priority=9)
    _configure(h, max_inflight=1)
    assert_equal(h.reserve_ids(10), [high], "reserved")


@case("L3", "L2", needs=LIMITS)
def a_rate_allows_the_next_job_exactly_when_it_is_due(h: Harness) -> None:
    _fill(h, 3)
    _configure(h, rate=2, burst=1)
    assert_equal(len(h.reserve(5)), 1, "jobs reserved at first")
    h.advance(SECOND // 2 - 1)
    assert_equal(len(h.reserve(5)), 0, "jobs reserved a microsecond early")
    h.advance(1)
    assert_equal(len(h.reserve(5)), 1, "jobs reserved in time")


@case("L3", needs=LIMITS)
def a_burst_is_the_number_of_jobs_allowed_at_once(h: Harness) -> None:
    _fill(h, 10)
    _configure(h, rate=1, burst=4)
    assert_equal(len(h.reserve(10)), 4, "jobs reserved at once")
    assert_equal(len(h.reserve(10)), 0, "jobs reserved right after")
    h.advance(2 * SECOND)
    assert_equal(len(h.reserve(10)), 2, "jobs reserved two seconds later")


@case("L3", needs=LIMITS)
def a_rate_without_a_burst_allows_the_jobs_of_one_second_at_once(h: Harness) -> None:
    _fill(h, 10)
    _configure(h, rate=3)
    assert_equal(len(h.reserve(10)), 3, "jobs reserved at once")


@case("L3", needs=LIMITS)
def a_rate_below_one_allows_one_job_at_once(h: Harness) -> None:
    _fill(h, 3)
    _configure(h, rate=0.1)
    assert_equal(len(h.reserve(10)), 1, "jobs reserved at once")
    h.advance(10 * SECOND - MILLISECOND)
    assert_equal(len(h.reserve(10)), 0, "jobs reserved a millisecond early")
    h.advance(MILLISECOND)
    assert_equal(len(h.reserve(10)), 1, "jobs reserved in time")


@case("L3", needs=LIMITS)
def an_idle_time_allows_no_more_than_the_burst(h: Harness) -> None:
    _fill(h, 10)
    _configure(h, rate=10, burst=3)
    assert_equal(len(h.reserve(1)), 1, "jobs reserved at first")
    h.advance(HOUR)
    assert_equal(len(h.reserve(10)), 3, "jobs reserved after an hour")


@case("L3", needs=LIMITS)
def a_reserve_that_is_late_by_less_than_one_job_loses_no_rate(h: Harness) -> None:
    _fill(h, 10)
    _configure(h, rate=10, burst=1)
    assert_equal(len(h.reserve(10)), 1, "jobs reserved at first")
    for late in (30, 99, 1):
        h.advance((100 + late) * MILLISECOND)
        assert_equal(len(h.reserve(10)), 1, f"jobs reserved {late} ms late")
        h.advance((100 - late) * MILLISECOND - 1)
        assert_equal(len(h.reserve(10)), 0, "jobs reserved a microsecond early")
        h.advance(1)
        assert_equal(len(h.reserve(10)), 1, "jobs reserved in time after a late one")


@case("L3", needs=LIMITS)
def a_rate_is_exact_over_time(h: Harness) -> None:
    _fill(h, 60)
    _configure(h, rate=5, burst=5)
    # The burst, and five jobs in each of the 9.9 seconds between the first and the last call.
    assert_equal(_reserve_for_ten_seconds(h), 5 + 49, "jobs reserved in ten seconds")


@case("L3", needs=LIMITS)
def a_rate_that_does_not_divide_a_second_loses_nothing_to_rounding(h: Harness) -> None:
    _fill(h, 40)
    _configure(h, rate=3, burst=3)
    # The burst, and the 29.7 jobs of 9.9 seconds at three per second.
    assert_equal(_reserve_for_ten_seconds(h), 3 + 29, "jobs reserved in ten seconds")


@case("L3", needs=LIMITS)
def a_reserve_that_returns_no_job_uses_no_rate(h: Harness) -> None:
    _configure(h, rate=1, burst=2)
    for _ in range(5):
        assert_equal(h.reserve(10), [], "reserved from an empty queue")
    _fill(h, 5)
    assert_equal(len(h.reserve(10)), 2, "jobs reserved")
    h.advance(SECOND // 2)
    assert_equal(len(h.reserve(10)), 0, "jobs reserved too early")
    h.advance(SECOND // 2)
    assert_equal(len(h.reserve(10)), 1, "jobs reserved in time")


@case("L3", needs=LIMITS)
def a_raised_rate_applies_at_once(h: Harness) -> None:
    _fill(h, 20)
    _configure(h, rate=0.001, burst=10)
    assert_equal(len(h.reserve(20)), 10, "jobs reserved at the old rate")
    _configure(h, rate=100, burst=5)
    h.advance(SECOND)
    assert_equal(len(h.reserve(20)), 5, "jobs reserved a second after the rate was raised to a hundred per second")


@case("L3", needs=LIMITS)
def an_ending_does_not_refund_the_rate(h: Harness) -> None:
    _fill(h, 3)
    _configure(h, rate=1, burst=1)
    h.must_settle(Ack(h.reserve_one().lease))
    assert_equal(h.reserve(), [], "reserved right after an ack")


@case("L3", needs=LIMITS | {Feature.TYPES})
def the_rate_of_a_type_does_not_block_other_types(h: Harness) -> None:
    first, _ = _fill(h, 2, type="a")
    others = _fill(h, 2, type="b")
    _configure(h, type="a", rate=1, burst=1)
    assert_equal(h.reserve_ids(10), [first, *others], "reserved")


@case("L3", needs=LIMITS)
def a_rate_and_max_inflight_apply_together(h: Harness) -> None:
    _fill(h, 9)
    _configure(h, rate=1, burst=3, max_inflight=2)
    first = h.reserve(9)
    assert_equal(len(first), 2, "jobs reserved within max_inflight")
    h.must_settle(*[Ack(reservation.lease) for reservation in first])
    assert_equal(len(h.reserve(9)), 1, "jobs reserved within the rest of the burst")


@case("L3", needs=LIMITS | {Feature.SPACES})
def settings_belong_to_their_space(h: Harness) -> None:
    _configure(h, paused_until=bounds.MAX_INSTANT)
    other = h.open_other_space()
    other.enqueue([h.job()], now=h.now_or_none)
    assert_equal(other.do(Settings(queue=QUEUE)), QueueSettings(), "the settings in another space")
    assert_equal(
        len(other.reserve([QUEUE], limit=1, lease_for=LEASE, now=h.now_or_none)), 1, "jobs reserved in another space"
    )
