"""The decisions of the pool: how many jobs to reserve and prefetch, and which child gets which run."""

from __future__ import annotations

from collections import deque

import pytest

from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease, Reservation
from holdfast.worker.processes import dispatch
from holdfast.worker.processes.dispatch import PoolSize
from holdfast.worker.processes.running import Run

ONE = PoolSize(processes=1, concurrency=1, chunk=1)
TWO = PoolSize(processes=2, concurrency=1, chunk=1)
THREADS = PoolSize(processes=1, concurrency=4, chunk=1)
CHUNKS = PoolSize(processes=1, concurrency=1, chunk=50)
NOW = 1000.0
MANY = 10_000  # finished jobs: the slow start is over


def make_run(
    number: int, *, type_: str = "t", isolated: bool = False, began_at: float | None = None, max_attempts: int = 25
) -> Run:
    job = JobRecord(
        id=f"j{number}", type=type_, queue="q", payload=b"1", created_at=1, attempts=1, max_attempts=max_attempts
    )
    lease = Lease(job_id=job.id, token="1.a", fence=1, expires_at=2)
    run = Run(number, Reservation(job=job, lease=lease, isolated=isolated))
    run.began_at = began_at
    return run


def make_runs(count: int, **fields) -> dict[int, Run]:
    return {number: make_run(number, **fields) for number in range(1, count + 1)}


def take(pending, runs, size, *, children_left=1, seconds=0.001):
    return dispatch.take_runs(pending, runs, size, children_left=children_left, seconds=seconds, now=NOW)


# How long a job takes ---------------------------------------------------------------------------------------


def test_the_estimate_rises_faster_than_it_falls():
    assert dispatch.smoothed_seconds(None, 3.0, 1) == 3.0
    assert dispatch.smoothed_seconds(1.0, 2.0, 1) == 1.5
    assert dispatch.smoothed_seconds(2.0, 1.0, 1) == 1.8


def test_jobs_that_end_together_count_as_jobs_one_after_the_other():
    one_by_one = 2.0
    for _ in range(3):
        one_by_one = dispatch.smoothed_seconds(one_by_one, 1.0, 1)
    assert dispatch.smoothed_seconds(2.0, 1.0, 3) == pytest.approx(one_by_one)


def test_one_slow_job_among_hundreds_of_short_ones_does_not_make_the_jobs_long():
    jobs = [0.000_015] * 300 + [0.010]
    assert dispatch.are_short(dispatch.smoothed_seconds(0.000_015, sum(jobs) / len(jobs), len(jobs)), ONE)


def test_jobs_are_taken_for_long_until_one_has_ended():
    assert dispatch.job_seconds(None, [0.0]) == dispatch.UNKNOWN_JOB_SECONDS
    assert dispatch.job_seconds(0.001, []) == 0.001
    assert dispatch.job_seconds(0.0, []) == dispatch.MIN_JOB_SECONDS


def test_runs_that_already_took_longer_than_the_estimate_count():
    assert dispatch.job_seconds(0.001, [5.0, 3.0]) == 3.0
    assert dispatch.job_seconds(0.001, [5.0, 0.0]) == 0.001  # one child is free


def test_a_child_that_can_start_a_run_is_not_busy():
    assert dispatch.running_seconds({}, ONE, NOW) == 0.0
    assert dispatch.running_seconds(make_runs(3, began_at=NOW - 2), THREADS, NOW) == 0.0
    assert dispatch.running_seconds(make_runs(4, began_at=NOW - 2), THREADS, NOW) == 2.0
    assert dispatch.running_seconds(make_runs(1), ONE, NOW) == 0.0  # it was sent, and has not begun


# How many jobs to reserve -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [ONE, TWO, THREADS], ids=["one", "two", "threads"])
def test_of_long_jobs_as_many_are_reserved_as_can_start(size):
    assert dispatch.reserve_limit(1.0, size, busy=0, finished=MANY) == size.slots
    assert dispatch.reserve_limit(1.0, size, busy=size.slots, finished=MANY) == 0


def test_short_jobs_are_reserved_in_large_batches_or_not_at_all():
    assert dispatch.reserve_limit(1e-6, ONE, busy=0, finished=MANY) == dispatch.MAX_RESERVE_JOBS
    capacity = dispatch.MAX_BUFFERED_JOBS + dispatch.MAX_PREFETCH_JOBS + 1
    assert dispatch.reserve_limit(1e-6, ONE, busy=capacity - 1000, finished=MANY) == 1000
    assert dispatch.reserve_limit(1e-6, ONE, busy=capacity - 999, finished=MANY) == 0


def test_jobs_of_ten_milliseconds_are_buffered_for_a_tenth_of_a_second():
    assert dispatch.reserve_limit(0.010, ONE, busy=0, finished=MANY) == 1 + 1 + 10


def test_a_child_with_many_slots_is_sent_as_much_as_it_prefetches_and_no_more():
    size = PoolSize(processes=2, concurrency=200, chunk=1)
    assert dispatch.prefetch_limit(0.1, size) == 20
    assert dispatch.reserve_limit(0.1, size, busy=0, finished=MANY) == 2 * (200 + 20)
    assert dispatch.reserve_limit(0.1, size, busy=440, finished=MANY) == 0


def test_the_first_reserves_grow_with_the_jobs_that_have_ended():
    """The first job may be the only short one: until more have ended, the worker holds few jobs."""
    held = [dispatch.reserve_limit(1e-6, TWO, busy=0, finished=number) for number in (0, 1, 2, 8, 32, 128)]
    assert held == [2, 4, 8, 32, 128, 512]
    assert dispatch.reserve_limit(1e-6, TWO, busy=0, finished=5000) == dispatch.MAX_RESERVE_JOBS


def test_a_reserve_waits_until_half_of_the_window_is_free_or_a_child_is_idle():
    assert dispatch.reserve_limit(1e-6, TWO, busy=64, finished=32) == 64
    assert dispatch.reserve_limit(1e-6, TWO, busy=65, finished=32) == 0
    assert dispatch.reserve_limit(1e-6, TWO, busy=1, finished=0) == 1


def test_a_chunk_is_reserved_even_if_its_jobs_are_long():
    assert dispatch.reserve_limit(1.0, CHUNKS, busy=0, finished=MANY) == 50


def test_jobs_are_short_if_all_slots_finish_hundreds_within_the_buffer_time():
    assert not dispatch.are_short(dispatch.UNKNOWN_JOB_SECONDS, ONE)
    assert not dispatch.are_short(0.001, ONE)
    assert dispatch.are_short(0.000_1, ONE)
    assert not dispatch.are_short(0.000_3, ONE)
    assert dispatch.are_short(0.000_3, TWO)


def test_no_job_waits_in_a_child_behind_a_long_one():
    assert dispatch.prefetch_limit(1.0, ONE) == 0
    assert dispatch.prefetch_limit(0.001, ONE) == 10
    assert dispatch.prefetch_limit(1e-6, ONE) == dispatch.MAX_PREFETCH_JOBS


# Which child gets which run ---------------------------------------------------------------------------------


def test_pending_runs_are_shared_between_the_children():
    pending = deque(make_runs(10).values())
    assert [run.number for run in take(pending, {}, TWO, children_left=2)] == [1, 2, 3, 4, 5]
    assert [run.number for run in take(pending, {}, TWO, children_left=1)] == [6, 7, 8, 9, 10]
    assert not pending


def test_a_child_gets_what_it_can_run_and_prefetch_and_no_more():
    pending = deque(make_runs(100).values())
    assert len(take(pending, {}, ONE, seconds=1.0)) == 1
    assert len(take(pending, {}, ONE, seconds=0.001)) == 11
    assert take(pending, make_runs(11), ONE, seconds=0.001) == []
    assert len(take(pending, {}, THREADS, seconds=1.0)) == 4


def test_a_child_whose_run_turned_out_to_be_long_gets_nothing():
    pending = deque(make_runs(10).values())
    assert take(pending, make_runs(1, began_at=NOW - 5), ONE, seconds=0.001) == []
    assert len(pending) == 10


def test_a_run_that_is_alone_waits_for_an_idle_child_and_shares_it_with_no_other():
    first, alone, last = make_runs(3).values()
    alone.alone = True
    pending = deque([first, alone, last])
    assert take(pending, {}, ONE) == [first]
    assert take(pending, {1: first}, ONE) == []
    assert take(pending, {}, ONE) == [alone]
    assert take(pending, {2: alone}, ONE) == []
    assert list(pending) == [last]


@pytest.mark.parametrize(
    ("isolated", "cpu_limit", "size", "expected"),
    [
        (False, None, THREADS, False),
        (True, None, ONE, True),
        (False, 1000, ONE, False),
        (False, 1000, THREADS, True),
    ],
)
def test_a_job_runs_alone_if_it_is_isolated_or_if_its_processor_time_could_not_be_told_apart(
    isolated, cpu_limit, size, expected
):
    run = make_run(1, isolated=isolated)
    run.cpu_limit = cpu_limit
    assert dispatch.runs_alone(run, size) is expected


def test_an_idle_child_gets_a_whole_chunk_of_one_type():
    runs = [make_run(number, type_="many" if number < 30 else "other") for number in range(40)]
    for run in runs:
        run.chunk = 20
    pending = deque(runs)
    assert len(take(pending, {}, CHUNKS, seconds=1.0)) == 20
    assert [run.number for run in take(pending, {}, CHUNKS, seconds=1.0)] == list(range(20, 30))
    assert pending[0].number == 30


# Stuck children, pauses -------------------------------------------------------------------------------------


def test_a_run_waits_until_the_last_one_that_was_sent_has_begun():
    runs = make_runs(2)
    runs[1].began_at = NOW
    assert dispatch.has_waiting(runs)
    runs[2].began_at = NOW
    assert not dispatch.has_waiting(runs)
    assert not dispatch.has_waiting({})


@pytest.mark.parametrize(
    ("seconds", "busy", "pending", "child_runs", "expected"),
    [
        (0.0001, 1000, 0, [500, 500], True),
        (0.0001, 1500, 500, [500, 500], True),
        (0.0001, 1500, 500, [500, 100], False),  # a child may become idle while runs are pending
        (0.0001, 100, 0, [100], False),  # few jobs
        (0.1, 1000, 0, [500, 500], False),  # long jobs
    ],
)
def test_events_are_paused_only_while_many_short_jobs_run(seconds, busy, pending, child_runs, expected):
    assert dispatch.can_pause_events(seconds, busy=busy, pending=pending, child_runs=child_runs) is expected


# Last attempts ----------------------------------------------------------------------------------------------


def make_last(number: int, *, is_start_known: bool) -> Run:
    run = make_run(number, max_attempts=1)
    run.is_start_known = is_start_known
    return run


def test_a_last_attempt_is_sent_only_when_the_store_knows_that_it_begins():
    pending = deque([make_run(1), make_last(2, is_start_known=False), make_run(3)])
    assert [run.number for run in take(pending, {}, THREADS)] == [1]
    pending[0].is_start_known = True
    assert [run.number for run in take(pending, {1: make_run(1)}, THREADS)] == [2, 3]


def test_a_last_attempt_waits_in_no_child_behind_others():
    pending = deque([make_run(1), make_last(2, is_start_known=True)])
    assert [run.number for run in take(pending, {}, ONE)] == [1]
    assert take(pending, {1: make_run(1)}, ONE) == []
    assert [run.number for run in take(pending, {}, ONE)] == [2]


def unknown_starts(pending: list[Run], child_runs: list[dict[int, Run]], size: PoolSize) -> list[int]:
    return [run.number for run in dispatch.unknown_starts(deque(pending), child_runs, size)]


def test_the_store_is_told_of_as_many_last_attempts_as_can_begin():
    last = [make_last(number, is_start_known=False) for number in range(1, 9)]
    assert unknown_starts(last, [{}, {}], TWO) == [1, 2]
    assert unknown_starts(last, [{}, {9: make_run(9)}], TWO) == [1]
    assert unknown_starts(last, [{9: make_run(9)}], THREADS) == [1, 2, 3]
    assert unknown_starts([make_run(9), *last], [{}, {}], TWO) == [1]


def test_the_store_is_told_once_of_a_last_attempt():
    pending = [make_last(1, is_start_known=True), make_last(2, is_start_known=False)]
    assert unknown_starts(pending, [{}, {}], TWO) == [2]
    assert unknown_starts(pending, [{}], TWO) == []


def test_a_last_attempt_that_is_alone_needs_a_child_without_runs():
    pending = [make_last(1, is_start_known=False)]
    pending[0].alone = True
    assert unknown_starts(pending, [make_runs(1)], THREADS) == []
    assert unknown_starts(pending, [{}], THREADS) == [1]
