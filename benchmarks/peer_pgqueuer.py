"""PgQueuer's side of a benchmark, in a child process: ``python -m benchmarks.peer_pgqueuer ROLE ...``.

PgQueuer is configured by its own performance guide: asyncpg, uvloop as in its command line, its autovacuum settings,
large batches for short jobs. Its tables stay durable, which is its default. The guide names both a pool and one direct
connection for the manager; sometimes one is faster, sometimes the other, so the benchmark measures both.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from benchmarks.jobs import PAYLOAD, TYPE
from benchmarks.processes import report_start

POOL = {"min_size": 5, "max_size": 20}  # as in the guide


class TimedQueries(Queries):
    """Queries that record the time of the last settlement."""

    last_settled = 0.0

    async def log_jobs(self, *arguments: Any) -> None:
        """Settle, then record the time."""
        await super().log_jobs(*arguments)
        self.last_settled = time.perf_counter()


def drain(url: str, count: str, processes: str, batch: str, connection_kind: str) -> None:
    """Time from the start of the first manager to the last settlement; connecting and stopping do not count."""
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(int(processes)), context.SimpleQueue()
    arguments = (url, int(batch), connection_kind, barrier, results)
    children = [context.Process(target=_drain, args=arguments) for _ in range(int(processes))]
    for process in children:
        process.start()
    began, ended, ran = zip(*(results.get() for _ in children), strict=True)
    for process in children:
        process.join()
    assert sum(ran) == int(count), ran
    print(max(ended) - min(began))


def _drain(
    url: str, batch: int, connection_kind: str, barrier: Barrier, results: SimpleQueue[tuple[float, float, int]]
) -> None:
    async def main() -> None:
        if connection_kind == "pool":
            queries = TimedQueries(AsyncpgPoolDriver(await asyncpg.create_pool(url, **POOL)))
        else:
            queries = TimedQueries(AsyncpgDriver(await asyncpg.connect(url)))
        manager = PgQueuer(queries.driver, queries=queries)
        ran = 0

        @manager.entrypoint(TYPE)
        async def noop(_job: Job) -> None:
            nonlocal ran
            ran += 1

        barrier.wait()
        began = time.perf_counter()
        await manager.run(batch_size=batch, mode=QueueExecutionMode.drain)
        results.put((began, queries.last_settled, ran))

    uvloop.run(main())


def enqueue(url: str, count: str, batch: str) -> None:
    """Time bulk enqueue; one batch is one call, which is one statement."""

    async def main() -> None:
        queries = await _connect(url)
        started = time.perf_counter()
        for _ in range(0, int(count), int(batch)):
            await queries.enqueue([TYPE] * int(batch), [PAYLOAD] * int(batch), [0] * int(batch))
        print(time.perf_counter() - started)

    uvloop.run(main())


def enqueue_each(url: str, count: str) -> None:
    """Time the enqueue of one job at a time, in a process that has run for a while."""

    async def main() -> None:
        queries = await _connect(url)
        for _ in range(int(count)):
            await queries.enqueue(TYPE, PAYLOAD)
        started = time.perf_counter()
        for _ in range(int(count)):
            await queries.enqueue(TYPE, PAYLOAD)
        print(time.perf_counter() - started)

    uvloop.run(main())


def listen(url: str, pipe: str) -> None:
    """Run an idle manager with its default batch size."""

    async def main() -> None:
        queries = await _connect(url)
        manager = PgQueuer(queries.driver, queries=queries)

        @manager.entrypoint(TYPE)
        async def handle(_job: Job) -> None:
            report_start(int(pipe))

        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, manager.shutdown.set)
        await manager.run()

    uvloop.run(main())


class Producer:
    """A synchronous producer: each call runs to its end."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._queries = self._runner.run(_connect(url))

    def install(self) -> None:
        """Create PgQueuer's tables and apply its autovacuum settings."""
        self._runner.run(self._queries.install())
        self._runner.run(self._queries.optimize_autovacuum())

    def enqueue(self) -> None:
        """Enqueue one job."""
        self._runner.run(self._queries.enqueue(TYPE, PAYLOAD))


async def _connect(url: str) -> Queries:
    return Queries(AsyncpgDriver(await asyncpg.connect(url)))


ROLES: dict[str, Callable[..., None]] = {
    "drain": drain,
    "enqueue": enqueue,
    "enqueue-each": enqueue_each,
    "listen": listen,
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
