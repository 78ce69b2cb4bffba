"""Workers are killed and stopped at random: no job is lost or ends twice, and no stale settlement is accepted."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path

import holdfast
from tests.soak.ledger_checks import check_history
from tests.soak.worker_group import (
    WorkerProcess,
    count_unfinished,
    sleep_jobs,
    stop_all,
    wait_until,
    wait_until_started,
    worker_group,
)

LEASE_SECONDS = 1.0
STOP_SECONDS = (1.2, 1.5)  # longer than a lease, but short: a worker stopped inside a commit blocks all the others
MAX_STOPPED = 3  # workers at a time, so that the others can make progress
FAULT_INTERVAL_SECONDS = 0.1
NEVER_DEAD = {"max_attempts": 100_000, "max_crashes": None}


def run_random_kills(folder: Path, *, workers: int, jobs: int, seconds: float) -> str:
    """Enqueue jobs evenly while workers are killed and replaced, or stopped for a while; then check everything."""
    path = folder / "kill.db"
    url = f"sqlite:///{path}"
    store = holdfast.connect(url)
    generator = random.Random(jobs)
    accepted: set[str] = set()
    faults: Counter[str] = Counter()
    killed: list[WorkerProcess] = []
    rounds = max(1, int(seconds / FAULT_INTERVAL_SECONDS))

    with worker_group(url, folder) as start:

        def start_worker() -> WorkerProcess:
            return start(lease=LEASE_SECONDS, processes=generator.randint(1, 2), grace=0.5)

        running = [start_worker() for _ in range(workers)]
        began = time.monotonic()
        for number in range(1, rounds + 1):
            new_count = jobs * number // rounds - len(accepted)
            new = sleep_jobs([_sleep_seconds(generator) for _ in range(new_count)], **NEVER_DEAD)
            accepted |= {answer.id for answer in store.enqueue(new)} if new else set()
            victim = generator.choice(running)
            whole_group = generator.random() < 0.5
            stopped = sum(worker.is_stopped for worker in running)
            if generator.random() < 0.35 and not victim.is_stopped and stopped < MAX_STOPPED:
                victim.stop_for(generator.uniform(*STOP_SECONDS), whole_group=whole_group)
                faults["SIGSTOPs"] += 1
            else:
                victim.signal(signal.SIGKILL, whole_group=whole_group)
                victim.signal(signal.SIGCONT, whole_group=True)  # stopped children must notice that their parent died
                killed.append(victim)
                running[running.index(victim)] = start_worker()
                faults["SIGKILLs"] += 1
            time.sleep(max(0.0, began + number * FAULT_INTERVAL_SECONDS - time.monotonic()))
        fault_seconds = time.monotonic() - began
        unfinished = count_unfinished(store)
        wait_until(
            lambda: count_unfinished(store) == 0,
            timeout=60 + jobs / 50,
            otherwise=lambda: f"{count_unfinished(store)} jobs have not ended: {store.counts()}",
        )
        wait_until_started(running, timeout=30)
        stop_all(running, timeout=60)
        wait_until(
            lambda: all(worker.is_gone() for worker in (*running, *killed)),
            timeout=10,
            otherwise=lambda: (
                "children outlive their worker: "
                f"{[worker.remaining_processes() for worker in killed if not worker.is_gone()]}"
            ),
        )
    proof = check_history(store, folder, accepted)
    assert proof.refused or rounds < 600, "no settlement was stale, so the refusal of stale settlements was not tested"
    store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    fault_counts = ", ".join(f"{count:,} {name}" for name, count in sorted(faults.items()))
    return (
        f"{workers} workers on one SQLite file, {jobs:,} jobs, {fault_counts} in {fault_seconds:.0f} s ({unfinished:,} "
        f"jobs unfinished at that time): none lost, none ended twice, no overlap; {proof.summary}"
    )


def _sleep_seconds(generator: random.Random) -> float:
    """Most jobs end at once, some take a while, a few take longer than a lease."""
    chance = generator.random()
    return 0 if chance < 0.7 else generator.uniform(0.005, 0.05) if chance < 0.99 else generator.uniform(0.5, 1.5)
