"""Decisions of the pool, without I/O: how many jobs to reserve and prefetch, and which child gets which run.

All decisions use one estimate: how many seconds recent jobs took. Long jobs are reserved when a child can start
them. Short jobs are reserved and sent by the hundred, because a round trip would cost more than the job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from holdfast.worker.processes.running import Run

MAX_PREFETCH_JOBS = 768  # jobs that may wait inside a child behind the running ones
PREFETCH_SECONDS = 0.010  # work that may wait inside a child: keeps it busy, and no job waits long behind another
MAX_BUFFERED_JOBS = 3000  # jobs that may wait in the worker, in front of all children
BUFFER_SECONDS = 0.100  # work that may wait in the worker: long jobs are left for other workers
MAX_RESERVE_JOBS = 1000  # jobs that are reserved by one call
SLOW_START_GROWTH = 4  # held jobs for each finished one, until the buffers are full: the first estimates are rough
MIN_SHORT_JOBS = 500  # jobs are short if at least this many fit into BUFFER_SECONDS
SOON_SECONDS = 0.050  # a job is expected to end soon if jobs take less than this
UNKNOWN_JOB_SECONDS = 1.0  # the estimate until the first job has ended
MIN_JOB_SECONDS = 1e-6
STUCK_SECONDS = 0.5  # after this long, the jobs behind a long one are taken back from its child
EVENT_PAUSE_SECONDS = 0.004  # how long the pool reads no events while very many short jobs run
EVENT_PAUSE_MIN_JOBS = 128  # with fewer jobs in the pool, the pause gains nothing
EVENT_PAUSE_MIN_CHILD_JOBS = 384  # jobs that keep a child busy for longer than the pause


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSize:
    """How many jobs a pool runs at a time."""

    processes: int
    concurrency: int  # jobs at a time in one child
    chunk: int  # the largest number of jobs that one call of a handler takes
    slots: int = field(init=False)  # jobs, or chunks of jobs, that run at a time in all children
    startable: int = field(init=False)  # runs of one child that can have begun; the runs behind them wait

    def __post_init__(self) -> None:
        """Compute the products once: they are needed for every batch."""
        object.__setattr__(self, "slots", self.processes * self.concurrency)
        object.__setattr__(self, "startable", self.concurrency * self.chunk)


# How long a job takes ---------------------------------------------------------------------------------------


def smoothed_seconds(estimate: float | None, seconds: float, jobs: int) -> float:
    """Return the new estimate after ``jobs`` jobs that ended together and took ``seconds`` on average.

    It rises faster than it falls. Of hundreds of short jobs, one that had to wait for a processor changes it little.
    """
    if estimate is None:
        return seconds
    return seconds + (estimate - seconds) * (0.5 if seconds > estimate else 0.8) ** jobs


def job_seconds(estimate: float | None, running: Iterable[float]) -> float:
    """Return the seconds that a job takes: the estimate, or more if every child is busy for longer already.

    ``running`` is ``running_seconds`` of each child.
    """
    known = UNKNOWN_JOB_SECONDS if estimate is None else estimate
    return max(MIN_JOB_SECONDS, known, min(running, default=0.0))


def startable_runs(runs: Mapping[int, Run], size: PoolSize) -> list[Run]:
    """Return the runs of a child that can have begun. ``runs`` are in the order in which they were sent."""
    return list(islice(runs.values(), size.startable))


def running_seconds(runs: Mapping[int, Run], size: PoolSize, now: float) -> float:
    """Return how long the youngest run of a child has been running; 0 if the child can start another one now."""
    startable = startable_runs(runs, size)
    if len(startable) < size.concurrency:
        return 0.0
    return min(now - run.began_at if run.began_at else 0.0 for run in startable)


# How many jobs to reserve -----------------------------------------------------------------------------------


def prefetch_limit(seconds: float, size: PoolSize) -> int:
    """Return how many runs a child gets beyond those that it can run at once, if a job takes ``seconds``."""
    return min(MAX_PREFETCH_JOBS, int(size.concurrency * PREFETCH_SECONDS / seconds))


def reserve_limit(seconds: float, size: PoolSize, *, busy: int, finished: int) -> int:
    """Return how many more jobs to reserve: those that can start at once, and those that wait for a moment only.

    ``busy`` runs have not ended yet, ``finished`` ones have. Short jobs are reserved in large batches or not at all:
    many small batches would cost more than the jobs, and children would wait for the next large one.
    """
    running = size.processes * size.startable
    startable = max(size.processes * (size.concurrency + prefetch_limit(seconds, size)), running)
    buffered = min(MAX_BUFFERED_JOBS, size.slots * int(BUFFER_SECONDS / seconds))
    most = startable + (buffered if buffered > size.slots else 0)
    window = max(running, SLOW_START_GROWTH * finished)
    if window < most:
        return window - busy if 2 * busy <= window or busy < running else 0
    if buffered <= size.slots:
        return most - busy
    limit = most - busy
    return min(limit, MAX_RESERVE_JOBS) if limit >= min(buffered // 2, MAX_RESERVE_JOBS) else 0


def are_short(seconds: float, size: PoolSize) -> bool:
    """Whether jobs are short: all slots together finish hundreds of them within ``BUFFER_SECONDS``."""
    return size.slots * int(BUFFER_SECONDS / seconds) >= MIN_SHORT_JOBS


# Which child gets which run ---------------------------------------------------------------------------------


def runs_alone(run: Run, size: PoolSize) -> bool:
    """Whether a run shares its child with no other.

    An isolated job runs alone: its crash must not hit others, nor theirs it. So does a job with a limit of processor
    time among several threads, because only the time of the whole process can be measured.
    """
    return run.reservation.isolated or (size.concurrency > 1 and run.cpu_limit is not None)


def take_runs(
    pending: deque[Run], runs: dict[int, Run], size: PoolSize, *, children_left: int, seconds: float, now: float
) -> list[Run]:
    """Remove from ``pending`` the runs that a child gets now, and return them.

    ``runs`` are those that the child has. ``children_left`` children, this one included, share the pending runs. A last
    attempt waits in no child behind others: it begins at once, and the store knows that (L7).
    """
    share = -(-len(pending) // children_left)
    limit = size.concurrency + prefetch_limit(max(seconds, running_seconds(runs, size, now)), size)
    most = min(share, limit - len(runs))
    taken: list[Run] = []
    if any(run.alone for run in islice(reversed(runs.values()), 1)):
        return taken
    while pending and (len(taken) < most or _completes_chunk(pending[0], runs, taken)):
        run = pending[0]
        if run.alone and (taken or runs):
            break
        if run.is_last_attempt and not (run.is_start_known and len(runs) + len(taken) < size.concurrency):
            break
        taken.append(pending.popleft())
        if run.alone:
            break
    return taken


def unknown_starts(pending: deque[Run], child_runs: Collection[Mapping[int, Run]], size: PoolSize) -> list[Run]:
    """Return the last attempts that could begin now, and of which the store does not know yet that they begin.

    ``child_runs`` are the runs of each child that takes runs. A run that is alone needs a child without runs.
    """
    places = sum(max(0, size.concurrency - len(runs)) for runs in child_runs)
    empty = sum(not runs for runs in child_runs)
    starts: list[Run] = []
    for index, run in enumerate(islice(pending, places)):
        if run.alone and index >= empty:
            break
        if run.is_last_attempt and not run.is_start_known:
            starts.append(run)
    return starts


def _completes_chunk(run: Run, runs: Mapping[int, Run], taken: list[Run]) -> bool:
    """Whether a run belongs to the chunk that an idle child is about to start."""
    if run.chunk == 1 or runs or not taken:
        return False
    return len(taken) < run.chunk and taken[0].reservation.job.type == run.reservation.job.type


def has_waiting(runs: dict[int, Run]) -> bool:
    """Whether a run of a child has not begun. Runs begin in the order in which they were sent."""
    return any(run.began_at is None for run in islice(reversed(runs.values()), 1))


def can_pause_events(seconds: float, *, busy: int, pending: int, child_runs: Iterable[int]) -> bool:
    """Whether the pool may read no events for ``EVENT_PAUSE_SECONDS``, without a child becoming idle.

    Waking up for each of very many short jobs would cost more than the jobs. ``child_runs`` are the numbers of
    runs in each child.
    """
    if seconds >= EVENT_PAUSE_SECONDS or busy < EVENT_PAUSE_MIN_JOBS:
        return False
    return not pending or all(count > EVENT_PAUSE_MIN_CHILD_JOBS for count in child_runs)
