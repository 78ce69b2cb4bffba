"""Pause, concurrency and rate limits: settings that reserve honours exactly."""

from __future__ import annotations

from typing import Any

from holdfast.clock import HOUR, MILLISECOND, SECOND
from holdfast.drivers.contract import Feature, QueueSettings
from holdfast.model import bounds
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Release, Retry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

LIMITS = {Feature.LIMITS}


def _configure(h: Harness, *, queue: str = QUEUE, type: str | None = None, **fields: Any) -> None:
    h.store.configure(queue, QueueSettings(**fields), type=type)


def _fill(h: Harness, count: int, **fields: Any) -> list[str]:
    return [h.put(**fields).id for _ in range(count)]


@case("L3", needs=LIMITS)
def settings_are_kept_per_queue_and_type(h: Harness) -> None:
    equal(h.store.settings(QUEUE), QueueSettings(), "the settings of a new queue")
    ours = QueueSettings(paused_until=5, max_inflight=3, rate=2.5, burst=7, dedupe_window=SECOND)
    types = QueueSettings(max_inflight=1)
    h.store.configure(QUEUE, ours)
    h.store.configure(QUEUE, types, type="a")
    equal(h.store.settings(QUEUE), ours, "of the queue")
    equal(h.store.settings(QUEUE, type="a"), types, "of the type")
    equal(h.store.settings(QUEUE, type="b"), QueueSettings(), "of another type")
    equal(h.store.settings("other"), QueueSettings(), "of another queue")
    equal(h.another().settings(QUEUE), ours, "seen by another connection")


@case("L3", needs=LIMITS)
def settings_are_replaced_whole(h: Harness) -> None:
    _configure(h, max_inflight=3, rate=1)
    _configure(h, max_inflight=4)
    equal(h.store.settings(QUEUE), QueueSettings(max_inflight=4), "the settings")


@case("L3", needs=LIMITS)
def a_paused_queue_gives_nothing_until_it_is_resumed(h: Harness) -> None:
    [job] = _fill(h, 1)
    _configure(h, paused_until=bounds.MAX_INSTANT)
    h.advance(HOUR)
    equal(h.reserve(), [], "reserved while paused")
    _configure(h)
    equal(h.taken(), [job], "reserved after the resume")


@case("L3", needs=LIMITS)
def a_pause_holds_up_no_other_queue(h: Harness) -> None:
    _fill(h, 1, queue="a")
    [other] = _fill(h, 1, queue="b")
    _configure(h, queue="a", paused_until=bounds.MAX_INSTANT)
    equal(h.taken(5, queues=["a", "b"]), [other], "reserved")


@case("L3", needs=LIMITS | {Feature.TYPES})
def a_paused_type_holds_up_no_other_type(h: Harness) -> None:
    _fill(h, 2, type="a", priority=9)
    other = _fill(h, 2, type="b")
    _configure(h, type="a", paused_until=bounds.MAX_INSTANT)
    equal(h.taken(5), other, "reserved")


@case("L3", needs=LIMITS)
def a_paused_queue_accepts_settlements_and_new_jobs(h: Harness) -> None:
    held = h.held()
    _configure(h, paused_until=bounds.MAX_INSTANT)
    h.put()
    h.extended(held.lease)
    h.settled(Ack(held.lease))
    equal(h.state(held.job.id), State.DONE, "the state")


@case("L3", "L7", needs=LIMITS)
def a_paused_queue_is_still_reaped(h: Harness) -> None:
    held = h.held()
    _configure(h, paused_until=bounds.MAX_INSTANT)
    h.advance(LEASE)
    equal(h.reserve(), [], "reserved")
    equal(h.state(held.job.id), State.READY, "the state")


@case("L3", needs=LIMITS)
def max_inflight_bounds_one_batch(h: Harness) -> None:
    jobs = _fill(h, 5)
    _configure(h, max_inflight=2)
    equal(h.taken(5), jobs[:2], "the first batch")
    equal(h.reserve(5), [], "the next")


@case("L3", needs=LIMITS)
def max_inflight_counts_what_is_in_flight_already(h: Harness) -> None:
    jobs = _fill(h, 5)
    equal(h.taken(1), jobs[:1], "without a limit")
    _configure(h, max_inflight=3)
    equal(h.taken(5), jobs[1:3], "up to the limit")


@case("L3", needs=LIMITS)
def every_ending_makes_room_again(h: Harness) -> None:
    _fill(h, 5)
    _configure(h, max_inflight=1)
    for ending in (Ack, Retry, Release):
        h.settled(ending(h.take().lease))
    h.take()
    equal(h.reserve(), [], "reserved while the room is taken")
    h.advance(LEASE)
    equal(len(h.reserve()), 1, "jobs reserved when the lease has expired")


@case("L3", needs=LIMITS)
def max_inflight_counts_its_own_queue_only(h: Harness) -> None:
    h.held(queue="other")
    job = h.put()
    _configure(h, max_inflight=1)
    equal(h.taken(), [job.id], "reserved")


@case("L3", needs=LIMITS | {Feature.TYPES})
def max_inflight_of_a_type_holds_up_no_other_type(h: Harness) -> None:
    first, _, _ = _fill(h, 3, type="a")
    others = _fill(h, 2, type="b")
    _configure(h, type="a", max_inflight=1)
    equal(h.taken(5), [first, *others], "reserved")
    equal(h.reserve(5), [], "reserved again")


@case("L3", needs=LIMITS | {Feature.TYPES})
def a_job_must_fit_its_queue_and_its_type(h: Harness) -> None:
    a = _fill(h, 3, type="a")
    b = _fill(h, 3, type="b")
    _configure(h, max_inflight=3)
    _configure(h, type="a", max_inflight=2)
    equal(h.taken(10), [*a[:2], b[0]], "reserved")


@case("L3", needs=LIMITS | {Feature.TYPES})
def the_limit_of_a_queue_holds_over_all_types(h: Harness) -> None:
    jobs = [h.put(type=type_).id for type_ in ("a", "b", "c")]
    _configure(h, max_inflight=2)
    equal(h.taken(10), jobs[:2], "reserved")


@case("L3", needs=LIMITS | {Feature.PRIORITIES})
def the_room_goes_to_the_highest_priority(h: Harness) -> None:
    _fill(h, 2)
    [high] = _fill(h, 1, priority=9)
    _configure(h, max_inflight=1)
    equal(h.taken(10), [high], "reserved")


@case("L3", "L2", needs=LIMITS)
def a_rate_gives_the_next_job_in_its_very_microsecond(h: Harness) -> None:
    _fill(h, 3)
    _configure(h, rate=2, burst=1)
    equal(len(h.reserve(5)), 1, "jobs reserved at first")
    h.advance(SECOND // 2 - 1)
    equal(len(h.reserve(5)), 0, "jobs reserved a microsecond early")
    h.advance(1)
    equal(len(h.reserve(5)), 1, "jobs reserved in time")


@case("L3", needs=LIMITS)
def a_burst_is_what_comes_at_once(h: Harness) -> None:
    _fill(h, 10)
    _configure(h, rate=1, burst=4)
    equal(len(h.reserve(10)), 4, "jobs reserved at once")
    equal(len(h.reserve(10)), 0, "jobs reserved right after")
    h.advance(2 * SECOND)
    equal(len(h.reserve(10)), 2, "jobs reserved two seconds later")


@case("L3", needs=LIMITS)
def a_rate_without_burst_allows_a_seconds_worth(h: Harness) -> None:
    _fill(h, 10)
    _configure(h, rate=3)
    equal(len(h.reserve(10)), 3, "jobs reserved at once")


@case("L3", needs=LIMITS)
def a_rate_below_one_allows_one_job(h: Harness) -> None:
    _fill(h, 3)
    _configure(h, rate=0.1)
    equal(len(h.reserve(10)), 1, "jobs reserved at once")
    h.advance(10 * SECOND - MILLISECOND)
    equal(len(h.reserve(10)), 0, "jobs reserved a millisecond early")
    h.advance(MILLISECOND)
    equal(len(h.reserve(10)), 1, "jobs reserved in time")


@case("L3", needs=LIMITS)
def a_quiet_time_saves_up_no_more_than_the_burst(h: Harness) -> None:
    _fill(h, 10)
    _configure(h, rate=10, burst=3)
    equal(len(h.reserve(1)), 1, "jobs reserved at first")
    h.advance(HOUR)
    equal(len(h.reserve(10)), 3, "jobs reserved after an hour")


@case("L3", needs=LIMITS)
def over_time_a_rate_is_exact(h: Harness) -> None:
    _fill(h, 60)
    _configure(h, rate=5, burst=5)
    total = 0
    for _ in range(100):
        total += len(h.reserve(10, lease_for=HOUR))
        h.advance(100 * MILLISECOND)
    # The burst, and five in each of the 9.9 seconds between the first and the last call.
    equal(total, 5 + 49, "jobs reserved in ten seconds")


@case("L3", needs=LIMITS)
def an_odd_rate_loses_nothing_to_rounding(h: Harness) -> None:
    _fill(h, 40)
    _configure(h, rate=3, burst=3)
    total = 0
    for _ in range(100):
        total += len(h.reserve(10, lease_for=HOUR))
        h.advance(100 * MILLISECOND)
    # The burst, and what 9.9 seconds at three per second bring: 29.7.
    equal(total, 3 + 29, "jobs reserved in ten seconds")


@case("L3", needs=LIMITS)
def asking_in_vain_uses_up_no_rate(h: Harness) -> None:
    _configure(h, rate=1, burst=2)
    for _ in range(5):
        equal(h.reserve(10), [], "reserved from an empty queue")
    _fill(h, 5)
    equal(len(h.reserve(10)), 2, "jobs reserved")
    h.advance(SECOND // 2)
    equal(len(h.reserve(10)), 0, "jobs reserved too early")
    h.advance(SECOND // 2)
    equal(len(h.reserve(10)), 1, "jobs reserved in time")


@case("L3", needs=LIMITS)
def a_raised_rate_is_not_held_up_by_the_old_one(h: Harness) -> None:
    _fill(h, 20)
    _configure(h, rate=0.001, burst=10)
    equal(len(h.reserve(20)), 10, "jobs reserved at the old rate")
    _configure(h, rate=100, burst=5)
    h.advance(SECOND)
    equal(len(h.reserve(20)), 5, "jobs reserved a second after the rate was raised to a hundred per second")


@case("L3", needs=LIMITS)
def a_rate_is_not_given_back_by_an_ending(h: Harness) -> None:
    _fill(h, 3)
    _configure(h, rate=1, burst=1)
    h.settled(Ack(h.take().lease))
    equal(h.reserve(), [], "reserved right after an ack")


@case("L3", needs=LIMITS | {Feature.TYPES})
def the_rate_of_a_type_holds_up_no_other_type(h: Harness) -> None:
    first, _ = _fill(h, 2, type="a")
    others = _fill(h, 2, type="b")
    _configure(h, type="a", rate=1, burst=1)
    equal(h.taken(10), [first, *others], "reserved")


@case("L3", needs=LIMITS)
def a_rate_and_max_inflight_hold_together(h: Harness) -> None:
    _fill(h, 9)
    _configure(h, rate=1, burst=3, max_inflight=2)
    first = h.reserve(9)
    equal(len(first), 2, "jobs reserved within max_inflight")
    h.settled(*[Ack(held.lease) for held in first])
    equal(len(h.reserve(9)), 1, "jobs reserved within what the burst has left")


@case("L3", needs=LIMITS | {Feature.SPACES})
def settings_belong_to_their_space(h: Harness) -> None:
    _configure(h, paused_until=bounds.MAX_INSTANT)
    other = h.elsewhere()
    other.enqueue([h.job()], now=h.stamp)
    equal(other.settings(QUEUE), QueueSettings(), "the settings in another space")
    equal(len(other.reserve([QUEUE], limit=1, lease_for=LEASE, now=h.stamp)), 1, "jobs reserved there")
