"""Domains that wait for missing offsets (L11).

A gap begins when a reserve, or the end of a job, finds it.
"""

from __future__ import annotations

from typing import Any

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Domains, Resume
from holdfast.model import bounds
from holdfast.model.domain import DomainInfo, DomainStatus
from holdfast.model.job import JobRecord
from holdfast.model.queue_settings import Gaps, OnExhausted, QueueSettings
from holdfast.model.settlement import Ack, Fail, Release
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.domain_calls import ask, end_offsets, enqueue_at, run_all
from holdfast.testing.drivers.harness import QUEUE, Harness

GAPS = {Feature.DOMAIN, Feature.LIMITS, Feature.OFFSET, Feature.OFFSET}
RESUME = GAPS | {Feature.DOMAINS}
REPORT_AFTER = 10 * SECOND
PASS_AFTER = 60 * SECOND


def _wait_for_gaps(h: Harness, **settings: Any) -> None:
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(gaps=Gaps.WAIT, **settings)))


def _domain(h: Harness, name: str = "d") -> DomainInfo:
    domains = h.store.do(Domains(queue=QUEUE, name=name, now=h.now_or_none)).items
    assert_equal(len(domains), 1, "the domains")
    return domains[0]


def _move_to(h: Harness, position: int) -> None:
    assert h.store.do(Resume(queue=QUEUE, domain="d", position=position, now=h.now_or_none)), (
        "wanted the position moved"
    )


@case("L11", needs=GAPS | {Feature.DOMAINS})
def the_first_offset_of_a_domain_is_0(h: Harness) -> None:
    _wait_for_gaps(h)
    enqueue_at(h, 1)
    assert_equal(h.reserve(9), [], "reserved before 0 arrived")
    enqueue_at(h, 0)
    assert_equal(run_all(h), [0, 1], "the order")


@case("L11", needs=GAPS | {Feature.DOMAINS})
def a_gap_stops_its_domain(h: Harness) -> None:
    _wait_for_gaps(h)
    enqueue_at(h, 0, 1, 3, 4)
    assert_equal(run_all(h), [0, 1], "the offsets before the gap")
    assert_equal(h.reserve(9), [], "behind the gap")


@case("L11", needs=GAPS | {Feature.DOMAINS})
def the_missing_offset_runs_at_once_and_lets_its_domain_go_on(h: Harness) -> None:
    _wait_for_gaps(h)
    enqueue_at(h, 0, 3, 2)
    assert_equal(run_all(h), [0], "the offsets before the gap")
    enqueue_at(h, 1)
    assert_equal(run_all(h), [1, 2, 3], "the offsets after the gap was filled")


@case("L11", needs=GAPS | {Feature.DOMAINS})
def shuffled_offsets_run_in_order_without_a_gap(h: Harness) -> None:
    _wait_for_gaps(h)
    ran: list[int | None] = []
    for offset in (4, 2, 0, 3, 1, 6, 5):
        enqueue_at(h, offset)
        ran += run_all(h)
    assert_equal(ran, [0, 1, 2, 3, 4, 5, 6], "the order")


@case("L11", needs=GAPS | {Feature.DOMAINS})
def a_gap_stops_only_its_domain(h: Harness) -> None:
    _wait_for_gaps(h)
    enqueue_at(h, 1)
    others = [h.enqueue_job().id, *enqueue_at(h, 0, domain="e"), h.enqueue_job(domain="f").id]
    other = enqueue_at(h, 7, queue="other")
    assert_equal(h.reserve_ids(9, queues=[QUEUE, "other"]), others + other, "reserved")


@case("L11", needs=GAPS)
def a_queue_passes_gaps_by_default(h: Harness) -> None:
    enqueue_at(h, 3, 7)
    assert_equal(run_all(h), [3, 7], "the order")


@case("L11", needs=GAPS | {Feature.DOMAINS})
def jobs_without_an_offset_wait_for_no_gap(h: Harness) -> None:
    _wait_for_gaps(h)
    free = enqueue_at(h, None)[0]
    reservation = h.reserve_one()
    assert_equal(reservation.job.id, free, "a job of a domain without offsets")
    behind = enqueue_at(h, None, 1)[0]
    h.must_settle(Ack(reservation.lease))
    assert_equal(h.reserve(9), [], "reserved behind a job that waits for its gap")
    enqueue_at(h, 0)
    assert_equal(run_all(h)[:2], [0, 1], "the offsets")
    assert_equal(h.get(behind).state, "done", "the job without an offset, which ran last")


@case("L11", needs=GAPS | {Feature.DOMAINS})
def a_dead_offset_leaves_no_gap(h: Harness) -> None:
    _wait_for_gaps(h)
    enqueue_at(h, 0, 1)
    h.must_settle(Fail(h.reserve_one().lease, reason="no"))
    assert_equal(run_all(h), [1], "the next offset")


@case("L11", needs=GAPS | {Feature.JOBS, Feature.DOMAINS})
def a_cancelled_offset_leaves_no_gap(h: Harness) -> None:
    _wait_for_gaps(h)
    jobs = enqueue_at(h, 0, 1, 2)
    h.cancel(jobs[0], jobs[1])
    assert_equal(run_all(h), [2], "the next offset")


@case("L11", needs=GAPS | {Feature.DOMAINS})
def a_released_offset_leaves_no_gap(h: Harness) -> None:
    _wait_for_gaps(h)
    enqueue_at(h, 0, 1)
    h.must_settle(Release(h.reserve_one().lease))
    assert_equal(run_all(h), [0, 1], "the order")


@case("L11", needs=GAPS | {Feature.JOBS, Feature.DOMAINS})
def a_requeued_offset_behind_a_gap_waits(h: Harness) -> None:
    _wait_for_gaps(h)
    later = enqueue_at(h, 5)[0]
    h.cancel(later)
    h.requeue(later)
    assert_equal(h.reserve(9), [], "reserved")
    assert_equal(_domain(h).position, 0, "the position")


# Time -----------------------------------------------------------------------------------------------------------------


@case("L11", needs=GAPS | {Feature.DOMAINS})
def a_gap_begins_when_a_reserve_finds_it(h: Harness) -> None:
    _wait_for_gaps(h)
    enqueue_at(h, 1)
    info = _domain(h)
    assert_equal((info.status, info.waits_for, info.waiting_since), (DomainStatus.WAITING, 0, None), "before a reserve")
    found_at = h.advance(SECOND)
    h.reserve(9, queues=["other"])
    assert_equal(_domain(h).waiting_since, None, "after a reserve of another queue")
    h.reserve(9)
    h.advance(SECOND)
    enqueue_at(h, 2)
    h.reserve(9)
    info = _domain(h)
    assert_equal((info.waits_for, info.waiting_since), (0, found_at), "what the domain waits for, and since when")


@case("L11", needs=GAPS | {Feature.DOMAINS})
def a_gap_begins_when_the_offset_before_it_ends(h: Harness) -> None:
    _wait_for_gaps(h)
    enqueue_at(h, 0, 2)
    running = h.reserve_one()
    h.advance(SECOND)
    info = _domain(h)
    assert_equal((info.status, info.waits_for, info.position), (DomainStatus.RUNNING, None, 0), "while 0 runs")
    ended_at = h.advance(SECOND)
    h.must_settle(Ack(running.lease))
    h.advance(SECOND)
    info = _domain(h)
    assert_equal((info.waits_for, info.waiting_since), (1, ended_at), "what the domain waits for, and since when")


@case("L11", needs=GAPS | {Feature.DOMAINS})
def the_next_gap_begins_anew(h: Harness) -> None:
    _wait_for_gaps(h)
    enqueue_at(h, 1, 3)
    h.reserve(9)
    enqueue_at(h, 0)
    for _ in range(2):
        reservation = h.reserve_one()
        assert_equal(_domain(h).waiting_since, None, "while a job runs")
        h.advance(SECOND)
        h.must_settle(Ack(reservation.lease))
    info = _domain(h)
    assert_equal((info.waits_for, info.waiting_since), (2, h.now), "what the domain waits for, and since when")


@case("L11", "L2", needs=GAPS | {Feature.DOMAINS})
def a_gap_is_overdue_at_its_time(h: Harness) -> None:
    _wait_for_gaps(h, gap_report_after=REPORT_AFTER)
    enqueue_at(h, 1)
    h.reserve(9)
    for step, is_overdue in ((REPORT_AFTER - 1, False), (1, True), (1, True)):
        h.advance(step)
        assert_equal(_domain(h).is_overdue, is_overdue, f"is_overdue at {h.now}")
    assert_equal(h.reserve(9), [], "reserved: a report passes nothing")


@case("L11", "L2", needs=GAPS | {Feature.DOMAINS})
def a_gap_is_passed_at_its_time_by_reserve_alone(h: Harness) -> None:
    _wait_for_gaps(h, gap_pass_after=PASS_AFTER)
    waiting = enqueue_at(h, 5, 7)[0]
    h.reserve(9)
    h.advance(PASS_AFTER - 1)
    assert_equal(h.reserve(9), [], "reserved one microsecond before")
    h.advance(1)
    reservation = h.reserve_one()
    assert_equal(reservation.job.id, waiting, "reserved at the time")
    assert_equal(_domain(h).position, 5, "the position")
    h.must_settle(Ack(reservation.lease))
    assert_equal(h.reserve(9), [], "reserved behind the next gap")
    info = _domain(h)
    assert_equal((info.waits_for, info.waiting_since), (6, h.now), "the next gap")


@case("L11", needs=GAPS | {Feature.DOMAINS})
def a_gap_that_is_not_seen_by_a_reserve_is_not_passed(h: Harness) -> None:
    _wait_for_gaps(h, gap_pass_after=PASS_AFTER)
    waiting = enqueue_at(h, 5)[0]
    h.advance(2 * PASS_AFTER)
    assert_equal(h.reserve(9), [], "the first reserve, at which the gap begins")
    h.advance(PASS_AFTER)
    assert_equal(h.reserve_ids(9), [waiting], "reserved at the time")


@case("L11", "L9", needs=GAPS | {Feature.DOMAINS})
def an_offset_that_arrives_after_its_gap_was_passed_runs_next(h: Harness) -> None:
    _wait_for_gaps(h, gap_pass_after=PASS_AFTER)
    enqueue_at(h, 5, 6)
    h.reserve(9)
    h.advance(PASS_AFTER)
    running = h.reserve_one()
    late = enqueue_at(h, 2)[0]
    h.must_settle(Ack(running.lease))
    reservation = h.reserve_one()
    assert_equal(reservation.job.id, late, "the late offset")
    h.must_settle(Ack(reservation.lease))
    assert_equal(run_all(h), [6], "the rest")
    assert not ask(h, 3).existed, "wanted another late offset to be new"


@case("L11", "L1", needs=GAPS | {Feature.DOMAINS})
def a_change_of_the_time_counts_from_the_same_beginning(h: Harness) -> None:
    _wait_for_gaps(h, gap_pass_after=PASS_AFTER)
    waiting = enqueue_at(h, 5)[0]
    h.reserve(9)
    h.advance(SECOND)
    _wait_for_gaps(h)
    h.advance(PASS_AFTER)
    assert_equal(h.reserve(9), [], "reserved while no time is set")
    _wait_for_gaps(h, gap_pass_after=2 * PASS_AFTER)
    h.advance(PASS_AFTER - SECOND - 1)
    assert_equal(h.reserve(9), [], "reserved one microsecond before the new time")
    h.advance(1)
    assert_equal(h.reserve_ids(9), [waiting], "reserved at the new time")


# Settings and position ------------------------------------------------------------------------------------------------


@case("L11", needs=GAPS | {Feature.DOMAINS})
def a_queue_that_passes_gaps_from_now_on_lets_its_domains_go_on(h: Harness) -> None:
    _wait_for_gaps(h)
    enqueue_at(h, 1)
    enqueue_at(h, 5, domain="e")
    assert_equal(h.reserve(9), [], "reserved while the queue waits")
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(), only=["gaps"]))
    assert_equal(_domain(h).status, DomainStatus.OPEN, "the status")
    assert_equal([reservation.job.offset for reservation in h.reserve(9)], [1, 5], "reserved")


@case("L11", needs=GAPS | {Feature.DOMAINS})
def a_queue_that_waits_for_gaps_from_now_on_stops_its_domains(h: Harness) -> None:
    enqueue_at(h, 1)
    h.must_settle(Release(h.reserve_one().lease))
    _wait_for_gaps(h)
    assert_equal(h.reserve(9), [], "reserved")
    enqueue_at(h, 0)
    assert_equal(run_all(h), [0, 1], "the order")


@case("L11", needs=GAPS | {Feature.DOMAINS})
def offsets_that_ended_before_the_queue_waited_leave_no_gap(h: Harness) -> None:
    end_offsets(h, 0, 1, 2)
    _wait_for_gaps(h)
    enqueue_at(h, 3, 5)
    assert_equal(run_all(h), [3], "the offset behind them")


@case("L11", needs=RESUME)
def the_position_of_a_domain_can_be_moved(h: Harness) -> None:
    _wait_for_gaps(h)
    _move_to(h, 100)
    enqueue_at(h, 101)
    assert_equal(h.reserve(9), [], "reserved before 100 arrived")
    enqueue_at(h, 100)
    assert_equal(run_all(h), [100, 101], "the order")
    assert_equal(_domain(h).position, 102, "the position")


@case("L11", "L9", needs=RESUME)
def moving_the_position_ends_a_gap(h: Harness) -> None:
    _wait_for_gaps(h)
    enqueue_at(h, 5, 8)
    assert_equal(h.reserve(9), [], "reserved before")
    _move_to(h, 5)
    assert_equal(run_all(h), [5], "after the first move")
    late = enqueue_at(h, 3)[0]
    assert_equal(h.reserve_ids(9), [late], "a smaller offset that arrives late")


@case("L11", needs=RESUME)
def moving_the_position_to_where_it_is_changes_nothing(h: Harness) -> None:
    _wait_for_gaps(h)
    assert not h.store.do(Resume(queue=QUEUE, domain="d", position=0, now=h.now_or_none)), "wanted nothing to change"
    _move_to(h, 7)
    assert not h.store.do(Resume(queue=QUEUE, domain="d", position=7, now=h.now_or_none)), (
        "wanted nothing to change again"
    )
    enqueue_at(h, 0)
    assert_equal(run_all(h), [0], "an offset below the position")


@case("L11", needs=RESUME)
def a_resume_looks_for_a_gap_also_if_nothing_changes(h: Harness) -> None:
    _wait_for_gaps(h)
    enqueue_at(h, 1)
    assert not h.store.do(Resume(queue=QUEUE, domain="d", now=h.now_or_none)), "wanted nothing to change"
    info = _domain(h)
    assert_equal((info.waits_for, info.waiting_since), (0, h.now), "what the domain waits for, and since when")


@case("L11", needs=RESUME)
def a_position_moved_back_waits_again(h: Harness) -> None:
    _wait_for_gaps(h)
    _move_to(h, 5)
    enqueue_at(h, 5)
    h.must_settle(Release(h.reserve_one().lease))
    _move_to(h, 0)
    assert_equal(h.reserve(9), [], "reserved")
    info = _domain(h)
    assert_equal((info.waits_for, info.waiting_since), (0, h.now), "what the domain waits for, and since when")


@case("L11", needs=RESUME)
def a_halted_domain_waits_for_no_offset_until_it_is_resumed(h: Harness) -> None:
    _wait_for_gaps(h, on_exhausted=OnExhausted.HALT, gap_pass_after=PASS_AFTER)
    enqueue_at(h, 0, 2)
    h.must_settle(Fail(h.reserve_one().lease, reason="no"))
    h.advance(2 * PASS_AFTER)
    assert_equal(h.reserve(9), [], "reserved while halted")
    info = _domain(h)
    assert_equal((info.status, info.waits_for), (DomainStatus.HALTED, None), "the halted domain")
    assert h.store.do(Resume(queue=QUEUE, domain="d", now=h.now_or_none)), "wanted the domain resumed"
    info = _domain(h)
    assert_equal((info.waits_for, info.waiting_since), (1, h.now), "what the domain waits for, and since when")
    assert_equal(h.reserve(9), [], "reserved behind the gap")


@case("L11", needs=RESUME)
def a_domain_can_begin_at_the_largest_offset(h: Harness) -> None:
    _wait_for_gaps(h)
    _move_to(h, bounds.MAX_OFFSET)
    enqueue_at(h, bounds.MAX_OFFSET)
    assert_equal(run_all(h), [bounds.MAX_OFFSET], "the order")
    assert_equal(_domain(h).position, bounds.MAX_OFFSET, "the position, which has nowhere to go")


@case("L11", "L9", needs=GAPS | {Feature.DOMAINS})
def an_offset_that_waits_is_known(h: Harness) -> None:
    _wait_for_gaps(h)
    waiting: JobRecord = h.enqueue_job(domain="d", offset=4)
    answer = ask(h, 4)
    assert_equal((answer.id, answer.existed, answer.past), (waiting.id, True, False), "the answer")
