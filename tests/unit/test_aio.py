"""The async client: the answers are those of the client, and a waiting call holds no thread."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.aio import AsyncClient
from holdfast.client import Client
from holdfast.clock import SECOND
from holdfast.connect import connect
from holdfast.drivers.contract import Store
from holdfast.drivers.settle_one import ack
from holdfast.errors import EnqueueConflict, JobNotDone, JobNotFound, StoreClosed, WaitTimeout
from holdfast.model.job import State
from holdfast.model.lease import Enqueued, Lease
from holdfast.model.request import META_RETRY, JobRequest
from holdfast.model.retry import NoDelay

Scenario = Callable[[AsyncClient], Awaitable[None]]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return connect({"memory": "memory://", "sqlite": f"sqlite:///{tmp_path / 'jobs.db'}"}[request.param])


def run_scenario(store: Store, scenario: Scenario) -> None:
    async def main() -> None:
        async with AsyncClient(store) as client:
            await scenario(client)

    asyncio.run(main())


def lease_next(client: AsyncClient) -> Lease:
    [reservation] = client.driver.reserve(["default"], limit=1, lease_for=60 * SECOND)
    return reservation.lease


def public_methods(cls: type) -> dict[str, list[str]]:
    return {
        name: list(inspect.signature(method).parameters)
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_") or name == "__init__"
    }


def test_the_methods_are_those_of_the_client():
    assert public_methods(AsyncClient) == public_methods(Client)


def test_a_job_carries_its_retry_policy(store: Store):
    async def scenario(client: AsyncClient) -> None:
        answer = await client.enqueue(JobRequest(type="t", retry=NoDelay()))
        record = await client.get(answer.id)
        assert record is not None
        assert record.meta == {META_RETRY: "none"}

    run_scenario(store, scenario)


def test_enqueue_get_wait_and_result(store: Store):
    async def scenario(client: AsyncClient) -> None:
        answer = await client.enqueue(JobRequest(type="t", payload=1))
        assert answer == Enqueued(id=answer.id, existed=False)
        answers = await client.enqueue([JobRequest(type="t")] * 3)
        assert len(await client.enqueue_many(JobRequest(type="u"), range(3))) == 3
        assert len({answer.id for answer in answers}) == 3
        record = await client.get(answer.id)
        assert record is not None
        assert record.payload == b"1"
        lease = lease_next(client)
        waiting = asyncio.create_task(client.wait(answer.id, timeout=60))
        await asyncio.sleep(0)
        ack(client.driver, lease, result=b"[1]")
        assert (await waiting).state is State.DONE
        assert await client.result(answer.id) == [1]
        with pytest.raises(JobNotDone):
            await client.result(answers[0].id)

    run_scenario(store, scenario)


def test_conflicts_unknown_jobs_and_cancelling(store: Store):
    async def scenario(client: AsyncClient) -> None:
        first = await client.enqueue(JobRequest(type="t", payload=1, idempotency_key="k"))
        other = JobRequest(type="t", payload=2, idempotency_key="k")
        with pytest.raises(EnqueueConflict):
            await client.enqueue(other)
        assert (await client.enqueue(other, on_conflict="return")).conflict
        with pytest.raises(JobNotFound):
            await client.wait("nobody", timeout=None)
        with pytest.raises(WaitTimeout, match="it is ready"):
            await client.wait(first.id, timeout=0.005)
        assert await client.cancel(first.id) is State.CANCELLED
        assert (await client.wait(first.id, timeout=0)).state is State.CANCELLED

    run_scenario(store, scenario)


def test_many_calls_can_wait_at_once_without_a_thread_for_each(store: Store):
    async def scenario(client: AsyncClient) -> None:
        answers = await client.enqueue([JobRequest(type="t")] * 200)
        waiting = [asyncio.create_task(client.wait(answer.id, timeout=60)) for answer in answers]
        while not all(task.done() for task in waiting):
            assert threading.active_count() < 100
            for reservation in client.driver.reserve(["default"], limit=50, lease_for=60 * SECOND):
                ack(client.driver, reservation.lease)
            await asyncio.sleep(0.005)
        assert {task.result().state for task in waiting} == {State.DONE}

    run_scenario(store, scenario)


def test_a_cancelled_wait_ends_at_once(store: Store):
    async def scenario(client: AsyncClient) -> None:
        answer = await client.enqueue(JobRequest(type="t"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await client.wait(answer.id, timeout=None)

    run_scenario(store, scenario)


def test_leaving_the_context_closes_the_driver(store: Store):
    async def scenario(client: AsyncClient) -> None:
        await client.enqueue(JobRequest(type="t"))

    run_scenario(store, scenario)
    with pytest.raises(StoreClosed):
        store.get("j1")


def test_a_connection_is_used_from_another_thread(tmp_path: Path):
    path = tmp_path / "shop.db"
    store = connect(f"sqlite:///{path}")
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:

        async def scenario(client: AsyncClient) -> None:
            answer = await client.enqueue(JobRequest(type="t"), connection=connection)
            assert await client.get(answer.id) is None
            connection.commit()
            assert await client.get(answer.id) is not None

        run_scenario(store, scenario)
