"""The async client on PostgreSQL: imports, the connection and the installation of the tables happen in a thread."""

import asyncio

import psycopg

from holdfast.aio import AsyncClient
from holdfast.drivers.postgres.migrations import INSTALLATION_LOCK
from holdfast.model.request import JobRequest

TICKS = 20


def test_the_loop_ticks_while_the_store_is_opened_and_used(empty_url):
    """The store waits for a lock that is released after some ticks. With a blocked loop it would never be opened."""

    async def release_after_ticks(session: psycopg.Connection) -> None:
        for _ in range(TICKS):
            await asyncio.sleep(0.001)
        session.execute("SELECT pg_advisory_unlock(%s, %s)", INSTALLATION_LOCK)

    async def main() -> None:
        async with asyncio.timeout(60):
            with psycopg.connect(empty_url, autocommit=True) as session:
                session.execute("SELECT pg_advisory_lock(%s, %s)", INSTALLATION_LOCK)
                ticking = asyncio.create_task(release_after_ticks(session))
                async with AsyncClient.open(empty_url) as client:
                    assert ticking.done()
                    answers = await asyncio.gather(*(client.enqueue(JobRequest(type="t")) for _ in range(100)))
                    assert len({answer.id for answer in answers}) == 100

    asyncio.run(main())


def test_more_concurrent_calls_than_connections_all_succeed(url):
    """Calls wait for a thread of the client, in turn, and few of them for a connection."""

    async def main() -> None:
        async with AsyncClient.open(f"{url}{'&' if '?' in url else '?'}connections=2") as client:
            answers = await asyncio.gather(*(client.enqueue(JobRequest(type="t")) for _ in range(500)))
            assert len({answer.id for answer in answers}) == 500

    asyncio.run(main())
