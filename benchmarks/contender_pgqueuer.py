"""PgQueuer's side of a benchmark, in a process of its own: ``python -m benchmarks.contender_pgqueuer ROLE ...``.

It is set up by its own guide to performance: asyncpg, uvloop as its command line has it, its settings for autovacuum,
large batches for short jobs; its tables stay durable, which is its default. The guide names both a pool and one direct
connection for the manager, and which one is quicker differs: the benchmark asks for both.
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
from benchmarks.sides import tell_start

POOL = {"min_size": 5, "max_size": 20}  # as in its guide


class Watched(Queries):
    """Knows when it has settled something for the last time."""

    last = 0.0

    async def log_jobs(self, *arguments: Any) -> None:
        """Its own, and the time."""
        await super().log_jobs(*arguments)
        self.last = time.perf_counter()


def drain(url: str, count: str, processes: str, batch: str, over: str) -> None:
    """From the start of the first manager to the last settlement of all; connecting and stopping are not counted."""
    context = multiprocessing.get_context("fork")
    barrier, told = context.Barrier(int(processes)), context.SimpleQueue()
    crew = [context.Process(target=_drain, args=(url, int(batch), over, barrier, told)) for _ in range(int(processes))]
    for process in crew:
        process.start()
    began, ended, ran = zip(*(told.get() for _ in crew), strict=True)
    for process in crew:
        process.join()
    assert sum(ran) == int(count), ran
    print(max(ended) - min(began))


def _drain(url: str, batch: int, over: str, barrier: Barrier, told: SimpleQueue[tuple[float, float, int]]) -> None:
    async def main() -> None:
        if over == "pool":
            queries = Watched(AsyncpgPoolDriver(await asyncpg.create_pool(url, **POOL)))
        else:
            queries = Watched(AsyncpgDriver(await asyncpg.connect(url)))
        manager = PgQueuer(queries.driver, queries=queries)
        ran = 0

        @manager.entrypoint(TYPE)
        async def noop(_job: Job) -> None:
            nonlocal ran
            ran += 1

        barrier.wait()
        began = time.perf_counter()
        await manager.run(batch_size=batch, mode=QueueExecutionMode.drain)
        told.put((began, queries.last, ran))

    uvloop.run(main())


def enqueue(url: str, count: str, batch: str) -> None:
    """A batch is one call, which is one statement."""

    async def main() -> None:
        queries = await queries_at(url)
        started = time.perf_counter()
        for _ in range(0, int(count), int(batch)):
            await queries.enqueue([TYPE] * int(batch), [PAYLOAD] * int(batch), [0] * int(batch))
        print(time.perf_counter() - started)

    uvloop.run(main())


def listen(url: str, pipe: str) -> None:
    """One idle manager, with the batches of its default."""

    async def main() -> None:
        queries = await queries_at(url)
        manager = PgQueuer(queries.driver, queries=queries)

        @manager.entrypoint(TYPE)
        async def told(_job: Job) -> None:
            tell_start(int(pipe))

        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, manager.shutdown.set)
        await manager.run()

    uvloop.run(main())


class Producer:
    """For a program that is not asynchronous: each call is run to its end."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._queries = self._runner.run(queries_at(url))

    def install(self) -> None:
        """Its tables, and its settings for autovacuum."""
        self._runner.run(self._queries.install())
        self._runner.run(self._queries.optimize_autovacuum())

    def enqueue(self) -> None:
        """One job."""
        self._runner.run(self._queries.enqueue(TYPE, PAYLOAD))


async def queries_at(url: str) -> Queries:
    return Queries(AsyncpgDriver(await asyncpg.connect(url)))


ROLES: dict[str, Callable[..., None]] = {"drain": drain, "enqueue": enqueue, "listen": listen}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
