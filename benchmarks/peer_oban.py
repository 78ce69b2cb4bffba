"""Oban's side of a benchmark, in a child process: ``python -m benchmarks.peer_oban ROLE ...``.

Oban needs Python 3.12 or later, so it is not among the locked packages; it is measured where it has been installed
separately. Its tables are durable, and its event loop is uvloop as in its command line. The limit of an Oban queue is
both the batch size and the number of concurrent jobs; the benchmark uses the fastest limit that was tried.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import time
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier

import uvloop
from oban import Oban, worker
from oban.job import Job
from oban.schema import install

QUEUE = "bench"
POLL_INTERVAL_SECONDS = 0.02
UNFINISHED = "SELECT FROM oban_jobs WHERE state IN ('available', 'executing') LIMIT 1"


@worker(queue=QUEUE)
class Noop:
    """Does nothing."""

    async def process(self, _job: Job) -> None:
        """Do nothing."""


def enqueue(url: str, count: str, batch: str) -> None:
    """Time bulk enqueue; one batch is one call. Creates the tables if they do not exist."""

    async def main() -> None:
        pool = await Oban.create_pool(url)
        async with pool.connection() as connection:
            cursor = await connection.execute("SELECT to_regclass('oban_jobs')")
            row = await cursor.fetchone()
        if row is None or row[0] is None:
            await install(pool)
        client = Oban(pool=pool)
        started = time.perf_counter()
        for _ in range(0, int(count), int(batch)):
            await client.enqueue_many([Noop.new({"number": 1}) for _ in range(int(batch))])
        print(time.perf_counter() - started)
        await pool.close()

    uvloop.run(main())


def drain(url: str, processes: str, limit: str) -> None:
    """Time from the start of the queues, with connections open, until every job has ended."""
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(int(processes)), context.SimpleQueue()
    arguments = (url, int(limit), barrier, results)
    children = [context.Process(target=_drain, args=arguments) for _ in range(int(processes))]
    for process in children:
        process.start()
    began, ended = zip(*(results.get() for _ in children), strict=True)
    for process in children:
        process.join()
    print(max(ended) - min(began))


def _drain(url: str, limit: int, barrier: Barrier, results: SimpleQueue[tuple[float, float]]) -> None:
    async def main() -> None:
        pool = await Oban.create_pool(url)
        await pool.wait()
        barrier.wait()
        began = time.perf_counter()
        async with Oban(pool=pool, queues={QUEUE: limit}), pool.connection() as connection:
            while await (await connection.execute(UNFINISHED)).fetchone() is not None:  # noqa: ASYNC110 - Oban has no event
                await asyncio.sleep(POLL_INTERVAL_SECONDS)
            ended = time.perf_counter()
        results.put((began, ended))
        await pool.close()

    uvloop.run(main())


ROLES: dict[str, Callable[..., None]] = {"drain": drain, "enqueue": enqueue}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
