"""One job that crashes every process that runs it, among many harmless jobs."""

from __future__ import annotations

import random
from pathlib import Path

from msgspec.structs import replace

import holdfast
from holdfast.driver import State
from tests.soak.ledger_checks import read_ledger
from tests.soak.worker_group import count_unfinished, sleep_jobs, wait_until, worker_group
from tests.soak.worker_program import SEGFAULT


def run_poison(folder: Path, *, jobs: int) -> str:
    """Check that the job becomes a dead letter after three crashes, and that no other job is affected."""
    url = f"sqlite:///{folder / 'poison.db'}"
    store = holdfast.connect(url)
    records = sleep_jobs([0.001] * jobs)
    place = random.Random(jobs).randrange(jobs // 4, jobs // 2)
    records[place] = replace(records[place], type=SEGFAULT, max_crashes=3)
    store.enqueue(records)
    with worker_group(url, folder) as start:
        worker = start(processes=2, lease=5, until_drained=True)
        wait_until(
            lambda: count_unfinished(store) == 0,
            timeout=60 + jobs / 20,
            otherwise=lambda: f"{store.counts()} {worker.errors()}",
        )
        code = worker.wait(30)
        assert code == 0, worker.errors()
    poison = store.get(records[place].id)
    assert poison is not None
    assert (poison.state, poison.dead_reason, poison.attempts, poison.crashes) == (State.DEAD, "poison", 3, 3)
    others = [row for row in read_ledger(store) if row.job_id != poison.id]
    assert len(others) == jobs - 1, "the crash also ended an attempt of another job"
    assert {(row.state, row.attempt) for row in others} == {(State.DONE, 1)}
    store.close()
    return f"one segfaulting job among {jobs:,}: dead after 3 crashes, {len(others):,} other jobs done at first attempt"
