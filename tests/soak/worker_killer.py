"""One job that ends its whole worker, again and again, among healthy jobs: only this job becomes a dead letter (L7)."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

import holdfast
from holdfast import Holdfast, WorkerOptions
from holdfast.driver import JobRecord, State, Store
from holdfast.spark import run_queue, session
from holdfast.testing.servers.postgres import PostgresServer
from tests.processes import resident_bytes
from tests.soak.worker_group import WorkerProcess, count_unfinished, sleep_jobs, worker_group
from tests.soak.worker_program import HOARD_BYTES, KILL, KILL_BY_MEMORY, KILL_BY_SIGNAL, QUEUE, make_handlers

MEMORY_LIMIT_BYTES = HOARD_BYTES // 2  # of one process
ONCE_EVERY = 10  # one job of this many may run only once


class Killed(NamedTuple):
    """What one run saw."""

    deaths: int  # of workers
    suspects: int  # leases that expired before their job had begun


def make_jobs(generator: random.Random, *, short: int, long: int, how: str) -> tuple[list[JobRecord], str]:
    """Return healthy jobs and one killer among them, and the id of the killer."""
    records = sleep_jobs([0.0] * short + [0.001] * long)
    generator.shuffle(records)
    records = [replace(one, max_attempts=1) if not place % ONCE_EVERY else one for place, one in enumerate(records)]
    place = generator.randrange(len(records))
    records[place] = replace(records[place], type=KILL, payload=json.dumps(how).encode(), max_attempts=25)
    return records, records[place].id


def run_worker_killer(folder: Path, url: str, *, seed: int, short: int = 2000, long: int = 300) -> Killed:
    """Start workers until every job has ended. A watcher kills a worker that takes too much memory."""
    generator = random.Random(seed)
    how = KILL_BY_MEMORY if seed % 2 else KILL_BY_SIGNAL
    store = holdfast.connect(url)
    records, killer_id = make_jobs(generator, short=short, long=long, how=how)
    store.enqueue(records)
    deaths = 0
    deadline = time.monotonic() + 120 + (short + long) / 20
    with worker_group(url, folder) as start:
        while count_unfinished(store):
            assert time.monotonic() < deadline, f"{store.counts()} after {deaths} deaths"
            worker = start(processes=2, lease=1, until_drained=True)
            code = _wait_within_memory(worker, deadline)
            assert code in (0, -signal.SIGKILL), worker.errors()
            deaths += code != 0
    suspects = check_survivors(store, folder, records, killer_id)
    store.close()
    assert deaths in (3, 4), f"{deaths} deaths: three crashes are counted, and the first may come before the job begins"
    return Killed(deaths, suspects)


def run_worker_killers(folder: Path, *, runs: int) -> str:
    """Half of the runs on SQLite, half on PostgreSQL; half of each by a signal, half by memory. A fifth on Spark."""
    killed: list[Killed] = []
    with PostgresServer() as server:
        for seed in range(runs):
            run_folder = folder / str(seed)
            run_folder.mkdir()
            url = f"sqlite:///{run_folder}/jobs.db" if seed % 4 < 2 else server.create_database(f"killer{seed}")
            run = run_slot_killer if seed % 5 == 0 else run_worker_killer
            killed.append(run(run_folder, url, seed=seed))
    deaths, suspects = sum(one.deaths for one in killed), sum(one.suspects for one in killed)
    return (
        f"{runs} runs of a job that ends its worker, among 2,300 healthy jobs: only that job is dead, after 3 crashes; "
        f"{deaths} workers died, {suspects:,} leases expired before their jobs had begun"
    )


def run_slot_killer(folder: Path, url: str, *, seed: int, short: int = 2000, long: int = 300) -> Killed:
    """The same with the slots of a Spark job, whose Python processes the job ends."""
    how = KILL_BY_MEMORY if seed % 2 else KILL_BY_SIGNAL
    app = Holdfast(url)
    records, killer_id = make_jobs(random.Random(seed), short=short, long=long, how=how)
    app.driver.enqueue(records)
    make_handlers(app, folder)
    spark = session("local[2,8]")
    stop = threading.Event()
    watcher = threading.Thread(target=_kill_large_slots, args=(stop,))
    watcher.start()
    try:
        run_queue(app, spark=spark, slots=2, options=WorkerOptions(queues=(QUEUE,), lease=timedelta(seconds=2)))
    finally:
        stop.set()
        watcher.join()
        spark.stop()
    suspects = check_survivors(app.driver, folder, records, killer_id)
    app.close()
    deaths = sum(line.startswith(f"began {killer_id}") for line in run_lines(folder))
    assert deaths in (3, 4), deaths
    return Killed(deaths, suspects)


def _kill_large_slots(stop: threading.Event) -> None:
    while not stop.wait(0.1):
        _kill_worker_above_limit(os.getpid())


def _kill_worker_above_limit(ancestor: int) -> None:
    """If a child takes too much memory, kill its worker, the parent of its fork server, as a container does."""
    parents = _parents()
    for pid in parents:
        if "python" in _command(pid) and resident_bytes(pid) > MEMORY_LIMIT_BYTES:
            worker = parents.get(parents[pid], 0)
            if pid != ancestor and ancestor in _ancestors(pid, parents):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                    os.kill(pid, signal.SIGKILL)


def _parents() -> dict[int, int]:
    """The parent of every process. A process that a thread of a Java machine started is no child of its main thread."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    return parents


def _ancestors(pid: int, parents: dict[int, int]) -> set[int]:
    found: set[int] = set()
    while pid in parents and pid not in found:
        found.add(pid)
        pid = parents[pid]
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def run_lines(folder: Path) -> list[str]:
    """What the handlers of all workers have written."""
    return [line for path in folder.glob("runs.*") for line in path.read_text().splitlines()]


def check_survivors(store: Store, folder: Path, records: list[JobRecord], killer_id: str) -> int:
    """Check that no job is dead but the killer, and that no job with one attempt ran twice; return the suspects.

    A job with one attempt that had begun when its worker died is dead, too.
    """
    ended = [store.get(one.id) for one in records if one.id != killer_id]
    dead = [one for one in ended if one.state is not State.DONE]
    assert all((one.state, one.dead_reason, one.max_attempts) == (State.DEAD, "lease expired", 1) for one in dead), dead
    killer = store.get(killer_id)
    assert (killer.state, killer.dead_reason, killer.crashes) == (State.DEAD, "poison", 3), killer
    once = {one.id for one in records if one.max_attempts == 1}
    runs = Counter(line.split()[1] for line in run_lines(folder) if line.startswith("began"))
    repeated = {job_id: count for job_id, count in runs.items() if job_id in once and count > 1}
    assert not repeated, f"jobs with one attempt ran more than once: {repeated}"
    rows = store.ledger(limit=10_000).items
    return sum(row.detail == "not begun" for row in rows)


def _wait_within_memory(worker: WorkerProcess, deadline: float) -> int:
    """Wait for the exit of a worker. Kill all its processes if one takes too much memory, as a container does."""
    while (code := worker.process.poll()) is None:
        assert time.monotonic() < deadline, worker.errors()
        _kill_worker_above_limit(worker.pid)
        time.sleep(0.05)
    return code
