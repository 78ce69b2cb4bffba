"""Rolling restarts under load: a worker exits in time after SIGTERM, and other workers run the released jobs."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import holdfast
from holdfast.driver import SECOND, Ending, LedgerRow, State, SystemClock
from tests.soak.ledger_checks import check_history, read_ledger
from tests.soak.worker_group import (
    WorkerProcess,
    count_unfinished,
    sleep_jobs,
    stop_all,
    wait_until,
    wait_until_started,
    worker_group,
)

WORKERS = 3
BACKLOG_JOBS = 60  # enough to keep every worker busy, and few enough that no job waits long
SHORT_DRAIN_SECONDS = 0.02  # for every other worker: some jobs are interrupted while they run
MAX_EXIT_SECONDS = 5.0  # from the signal to the exit
LAST_RESERVE_MICROSECONDS = SECOND // 2  # after the signal: a reserve may be under way, waiting for other commits
MAX_MEDIAN_WAIT_SECONDS = 1.0  # from a release to the next lease


def run_rolling_restarts(folder: Path, *, count: int) -> str:
    """Check that every job is done at its first attempt, because a release refunds the attempt."""
    url = f"sqlite:///{folder / 'restarts.db'}"
    store = holdfast.connect(url)
    generator = random.Random(count)
    accepted: set[str] = set()
    exit_seconds: list[float] = []
    signalled_at: dict[int, int] = {}  # microseconds, by process id

    def feed() -> None:
        missing = max(0, BACKLOG_JOBS - count_unfinished(store))
        new = sleep_jobs([generator.uniform(0.01, 0.05) for _ in range(missing)])
        accepted.update(answer.id for answer in (store.enqueue(new) if new else ()))

    with worker_group(url, folder) as start:

        def start_worker(number: int) -> WorkerProcess:
            return start(processes=2, grace=1, **({"drain": SHORT_DRAIN_SECONDS} if number % 2 else {}))

        running = [start_worker(number) for number in range(WORKERS)]
        feed()
        wait_until(
            lambda: any(count.done for count in store.counts()), timeout=30, otherwise=lambda: "no job has ended"
        )
        for number in range(count):
            _feed_for(feed, generator.uniform(0.2, 0.5))
            leaving = running.pop(0)
            wait_until_started([leaving], timeout=30)
            running.append(start_worker(WORKERS + number))
            signalled, signalled_at[leaving.pid] = time.monotonic(), SystemClock().now()
            leaving.signal(signal.SIGTERM)
            while leaving.process.poll() is None and time.monotonic() < signalled + 2 * MAX_EXIT_SECONDS:
                feed()
                time.sleep(0.005)
            exit_seconds.append(time.monotonic() - signalled)
            assert leaving.wait(1) == 0, leaving.errors()
            wait_until(leaving.is_gone, timeout=5, otherwise=lambda: "children outlive their worker")
        wait_until(lambda: count_unfinished(store) == 0, timeout=60, otherwise=lambda: f"{store.counts()}")
        wait_until_started(running, timeout=30)
        stop_all(running, timeout=30)
    assert max(exit_seconds) < MAX_EXIT_SECONDS, f"a worker took {max(exit_seconds):.1f} s to exit"
    rows = read_ledger(store)
    assert {row.ending for row in rows} <= {Ending.ACKED, Ending.RELEASED}, "a lease has expired"
    assert {row.attempt for row in rows if row.state is State.DONE} == {1}, "an attempt was not refunded"
    for row in rows:
        signalled_then = signalled_at.get(int(row.worker.split(":")[1]))  # a worker's name contains its process id
        assert signalled_then is None or (row.reserved_at or 0) < signalled_then + LAST_RESERVE_MICROSECONDS, (
            f"reserved after SIGTERM: {row}"
        )
    check_history(store, folder, accepted)
    waits = _seconds_from_release_to_lease(rows)
    assert waits, "no job was released: the load was too low"
    median = waits[len(waits) // 2]
    assert median < MAX_MEDIAN_WAIT_SECONDS, waits
    store.close()
    return (
        f"{count} rolling restarts of {WORKERS} workers, {len(accepted):,} jobs: exit code 0 after at most "
        f"{max(exit_seconds):.2f} s; {len(waits):,} released jobs leased again after {median * 1000:.0f} ms (median; "
        f"at most {waits[-1] * 1000:.0f} ms), each done at its first attempt"
    )


def _feed_for(feed: Callable[[], None], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        feed()
        time.sleep(0.02)


def _seconds_from_release_to_lease(rows: list[LedgerRow]) -> list[float]:
    """Seconds from each release to the next lease of the same job, sorted."""
    waits = []
    released: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: row.fence or 0):
        if row.job_id in released:
            assert row.reserved_at is not None
            waits.append((row.reserved_at - released.pop(row.job_id)) / SECOND)
        if row.ending is Ending.RELEASED:
            released[row.job_id] = row.ended_at
    return sorted(waits)
