"""Handlers that refuse to stop, many times in one worker: each is stopped in time, and nothing leaks."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

import holdfast
from holdfast.driver import SECOND, State, Store
from tests.processes import descendants, resident_bytes
from tests.soak.ledger_checks import read_ledger
from tests.soak.worker_group import (
    WorkerProcess,
    count_unfinished,
    sleep_jobs,
    stop_all,
    wait_until,
    worker_group,
)
from tests.worker.hostile_handlers import HOSTILE_HANDLERS

TIMEOUTS_MILLISECONDS = (50, 75, 100)
GRACE_SECONDS = 0.15
MAX_LATENESS_SECONDS = 1.5  # after timeout and grace: settlements are batched, and the machine may be busy
PROCESSES = 4
FORK_SERVERS = 2  # one in use and a spare one
MAX_GROWTH_BYTES = 16 << 20  # of a worker after its first rounds


@dataclass(frozen=True)
class Resources:
    """The processes below a worker, and the descriptors and memory of the worker and its forkserver."""

    processes: int
    descriptors: int
    memory: int

    @classmethod
    def of(cls, pid: int) -> Resources:
        below = descendants(pid)
        return cls(
            processes=len(below),
            descriptors=sum(len(list(Path(f"/proc/{each}/fd").iterdir())) for each in (pid, below[0])),
            memory=sum(resident_bytes(each) for each in (pid, below[0])),
        )


def run_hostile_handlers(folder: Path, *, rounds: int) -> str:
    """Run some rounds to warm up, then the others; compare the resources of the worker before and after."""
    url = f"sqlite:///{folder / 'hostile.db'}"
    store = holdfast.connect(url)
    generator = random.Random(rounds)
    with worker_group(url, folder) as start:
        worker = start(hostile=True, processes=PROCESSES, grace=GRACE_SECONDS)
        _run_handlers(store, worker, [handler.__name__ for handler in HOSTILE_HANDLERS] * 2, generator)
        before = _measure(worker)
        _run_handlers(
            store,
            worker,
            [HOSTILE_HANDLERS[number % len(HOSTILE_HANDLERS)].__name__ for number in range(rounds)],
            generator,
        )
        after = _measure(worker)
        below = descendants(worker.pid)
        stop_all([worker], timeout=30)
        wait_until(worker.is_gone, timeout=10, otherwise=lambda: f"some of {below} outlive their worker")
    assert after.processes == before.processes == FORK_SERVERS + PROCESSES, (before, after)
    assert after.descriptors <= before.descriptors, (before, after)
    assert after.memory <= before.memory + MAX_GROWTH_BYTES, (before, after)
    lateness = _lateness_by_handler(store, rounds + 2 * len(HOSTILE_HANDLERS))
    slowest, seconds = max(lateness.items(), key=lambda item: item[1])
    store.close()
    return (
        f"{len(HOSTILE_HANDLERS)} handlers that refuse to stop, {rounds:,} rounds in one worker: all stopped, the last "
        f"{seconds * 1000:.0f} ms after timeout and grace ({slowest}); {after.processes} processes and "
        f"{after.descriptors} descriptors before and after, {(after.memory - before.memory) / (1 << 20):+.1f} MiB"
    )


def _run_handlers(store: Store, worker: WorkerProcess, handlers: list[str], generator: random.Random) -> None:
    generator.shuffle(handlers)
    records = sleep_jobs([0] * len(handlers), max_attempts=1)
    timeouts = [generator.choice(TIMEOUTS_MILLISECONDS) * SECOND // 1000 for _ in handlers]
    store.enqueue(
        [
            replace(record, type=handler, timeout=timeout)
            for record, handler, timeout in zip(records, handlers, timeouts, strict=True)
        ]
    )
    wait_until(
        lambda: count_unfinished(store) == 0,
        timeout=60 + len(handlers),
        otherwise=lambda: f"{store.counts()} {worker.errors()}",
    )


def _measure(worker: WorkerProcess) -> Resources:
    """Measure when the children that were killed last have been replaced."""
    deadline = time.monotonic() + 5
    while len(descendants(worker.pid)) != FORK_SERVERS + PROCESSES and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)
    return Resources.of(worker.pid)


def _lateness_by_handler(store: Store, jobs: int) -> Counter[str]:
    """The most seconds per handler between timeout plus grace and the end of the lease in the ledger."""
    rows = read_ledger(store)
    assert len(rows) == jobs
    lateness: Counter[str] = Counter()
    for row in rows:
        record = store.get(row.job_id)
        assert record is not None
        assert (row.state, row.detail) == (State.DEAD, "timed out"), row
        assert record.timeout is not None
        assert row.started_at is not None
        late = (row.ended_at - row.started_at - record.timeout) / SECOND - GRACE_SECONDS
        assert late < MAX_LATENESS_SECONDS, f"{row.type} ran for {late:.2f} s after its grace"
        lateness[row.type] = max(lateness[row.type], late)
    return lateness
