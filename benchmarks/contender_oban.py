"""Oban's side of a benchmark, in a process of its own: ``python -m benchmarks.contender_oban ROLE ...``.

Oban needs Python 3.12 or later, so it is no part of the locked packages; where it is installed beside them, the
benchmark asks. Its tables are durable, its loop is uvloop as its command line has it, and the limit of its queue, which
is at once its batch and how many jobs it runs at a time, is the quickest of those that were tried.
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
LOOK_EVERY = 0.02  # seconds between two looks for what is left
LEFT = "SELECT FROM oban_jobs WHERE state IN ('available', 'executing') LIMIT 1"


@worker(queue=QUEUE)
class Noop:
    """Does nothing."""

    async def process(self, _job: Job) -> None:
        """Nothing."""


def enqueue(url: str, count: str, batch: str) -> None:
    """A batch is one call. Makes the tables, if there are none."""

    async def main() -> None:
        pool = await Oban.create_pool(url)
        async with pool.connection() as connection:
            found = await connection.execute("SELECT to_regclass('oban_jobs')")
            known = await found.fetchone()
        if known is None or known[0] is None:
            await install(pool)
        client = Oban(pool=pool)
        started = time.perf_counter()
        for _ in range(0, int(count), int(batch)):
            await client.enqueue_many([Noop.new({"number": 1}) for _ in range(int(batch))])
        print(time.perf_counter() - started)
        await pool.close()

    uvloop.run(main())


def drain(url: str, processes: str, limit: str) -> None:
    """From the start of the queues, with connections there, until nothing is left."""
    context = multiprocessing.get_context("fork")
    barrier, told = context.Barrier(int(processes)), context.SimpleQueue()
    crew = [context.Process(target=_drain, args=(url, int(limit), barrier, told)) for _ in range(int(processes))]
    for process in crew:
        process.start()
    began, ended = zip(*(told.get() for _ in crew), strict=True)
    for process in crew:
        process.join()
    print(max(ended) - min(began))


def _drain(url: str, limit: int, barrier: Barrier, told: SimpleQueue[tuple[float, float]]) -> None:
    async def main() -> None:
        pool = await Oban.create_pool(url)
        await pool.wait()
        barrier.wait()
        began = time.perf_counter()
        async with Oban(pool=pool, queues={QUEUE: limit}), pool.connection() as connection:
            while await (await connection.execute(LEFT)).fetchone() is not None:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(LOOK_EVERY)
            ended = time.perf_counter()
        told.put((began, ended))
        await pool.close()

    uvloop.run(main())


ROLES: dict[str, Callable[..., None]] = {"drain": drain, "enqueue": enqueue}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
