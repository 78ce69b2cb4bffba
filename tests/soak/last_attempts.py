"""Jobs with one attempt that kill their worker as soon as they begin, among others that wait behind them (L7)."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from pathlib import Path

from msgspec.structs import replace

import holdfast
from holdfast.driver import State
from holdfast.testing.servers.postgres import PostgresServer
from tests.soak.worker_group import count_unfinished, sleep_jobs, worker_group
from tests.soak.worker_killer import run_lines
from tests.soak.worker_program import KILL, KILL_BY_SIGNAL

BEFORE_KILLER = 30  # jobs, after which the worker knows that jobs are short, and prefetches them
BEHIND_KILLER = 10


def run_last_attempt_kills(folder: Path, url: str, *, kills: int) -> str:
    """Let a job with one attempt kill its worker, again and again.

    The killer is dead, because it had begun. So are jobs that ended just before, if their worker died before it could
    settle them. The jobs that waited in the killed worker are done. No job began twice.
    """
    deadline = time.monotonic() + 60 + 10 * kills
    killers: list[str] = []
    before: list[str] = []
    behind: list[str] = []
    with holdfast.connect(url) as store, worker_group(url, folder) as start:
        for _ in range(kills):
            records = sleep_jobs([0.0] * (BEFORE_KILLER + 1 + BEHIND_KILLER), max_attempts=1)
            killer = records[BEFORE_KILLER] = replace(
                records[BEFORE_KILLER], type=KILL, payload=json.dumps(KILL_BY_SIGNAL).encode()
            )
            killers.append(killer.id)
            before += [record.id for record in records[:BEFORE_KILLER]]
            behind += [record.id for record in records[BEFORE_KILLER + 1 :]]
            store.enqueue(records)
            worker = start(processes=1, lease=1)
            assert worker.wait(deadline - time.monotonic()) == -signal.SIGKILL, worker.errors()
        while count_unfinished(store):
            assert start(processes=1, lease=1, until_drained=True).wait(deadline - time.monotonic()) == 0
        states = Counter((store.get(job_id).state, store.get(job_id).dead_reason) for job_id in killers)
        assert states == {(State.DEAD, "lease expired"): kills}, states
        states = Counter(store.get(job_id).state for job_id in behind)
        assert states == {State.DONE: len(behind)}, states
        unsettled = sum(store.get(job_id).dead_reason == "lease expired" for job_id in before)
        suspects = sum(row.detail == "not begun" for row in store.ledger(limit=10_000).items)
        assert suspects, "no job waited in a killed worker"
    begins = Counter(line.split()[1] for line in run_lines(folder) if line.startswith("began"))
    assert begins == dict.fromkeys([*killers, *before, *behind], 1), begins.most_common(5)
    return (
        f"{kills} workers killed by a job with one attempt, each dead after one run; {suspects:,} jobs waited in these "
        f"workers and ran later, {unsettled:,} had ended and were not settled; none began twice"
    )


def run_last_attempts(folder: Path, *, kills: int) -> str:
    """Half of the kills on SQLite, half on PostgreSQL."""
    for name in ("sqlite", "postgres"):
        (folder / name).mkdir()
    reports = [run_last_attempt_kills(folder / "sqlite", f"sqlite:///{folder}/jobs.db", kills=kills // 2)]
    with PostgresServer() as server:
        url = server.create_database("last_attempts")
        reports.append(run_last_attempt_kills(folder / "postgres", url, kills=kills - kills // 2))
    return "; ".join(reports)
