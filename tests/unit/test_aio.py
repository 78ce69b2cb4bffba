"""The async client: the answers are those of the client, and a waiting call holds no thread."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast.aio import MAX_THREADS, AsyncClient
from holdfast.client import Client
from holdfast.clock import SECOND
from holdfast.connect import connect
from holdfast.drivers.requests import Configure
from holdfast.drivers.settle_one import ack
from holdfast.drivers.store import Store
from holdfast.errors import (
    ConnectError,
    EnqueueConflict,
    JobNotDone,
    JobNotFound,
    StoreClosed,
    StoreUnavailable,
    WaitTimeout,
)
from holdfast.model.domain import DomainStatus, ResumeAction
from holdfast.model.job import State
from holdfast.model.lease import Enqueued, Lease
from holdfast.model.queue_settings import OnExhausted, QueueSettings
from holdfast.model.request import META_RETRY, JobRequest
from holdfast.model.retry import NoDelay
from holdfast.model.settlement import Fail

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


FOR_SCHEDULERS = {"enqueue_with_writes"}  # they have a thread of their own


def public_methods(cls: type) -> dict[str, list[str]]:
    return {
        name: list(inspect.signature(method).parameters)
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_") or name == "__init__"
    }


def test_the_methods_are_those_of_the_client():
    methods = public_methods(AsyncClient)
    assert methods.pop("close") == ["self"]
    assert methods == {
        name: parameters for name, parameters in public_methods(Client).items() if name not in FOR_SCHEDULERS
    }


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


def test_domains_are_listed_resumed_and_forgotten(store: Store):
    store.do(Configure(queue="default", settings=QueueSettings(on_exhausted=OnExhausted.HALT)))

    async def scenario(client: AsyncClient) -> None:
        request = JobRequest(type="t", domain="d", offset=3)
        await client.enqueue(request)
        store.settle([Fail(lease_next(client), "no")])
        [halted] = await client.domains(status=DomainStatus.HALTED)
        assert halted.domain == "d"
        assert await client.resume_domain("default", "d", ResumeAction.SKIP)
        assert (await client.enqueue(request)).past
        assert await client.forget_domain("default", "d")

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


# Opening and closing ----------------------------------------------------------------------------------------

TICKS = 20


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Lock a file of SQLite: a store that is being opened waits until the lock is released."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield connection


async def release_after_ticks(connection: sqlite3.Connection) -> None:
    """Release the lock after some turns of the event loop, which a blocked loop would never make."""
    for _ in range(TICKS):
        await asyncio.sleep(0.001)
    connection.execute("ROLLBACK")


def test_opening_a_store_leaves_the_loop_to_other_tasks(tmp_path: Path):
    path = tmp_path / "jobs.db"

    async def main() -> None:
        with locked(path) as lock:
            ticking = asyncio.create_task(release_after_ticks(lock))
            async with AsyncClient.open(f"sqlite:///{path}?busy_for=60") as client:
                assert await client.get("nobody") is None
                assert ticking.done()  # the store could be used only after the ticks

    asyncio.run(main())


def test_calls_that_open_the_store_at_once_open_one_store(tmp_path: Path):
    path = tmp_path / "jobs.db"

    async def main() -> None:
        client = AsyncClient.open(f"sqlite:///{path}?busy_for=60", space="mine")
        with locked(path) as lock:
            calls = [client.enqueue(JobRequest(type="t", payload=number)) for number in range(50)]
            *answers, _ = await asyncio.gather(*calls, release_after_ticks(lock))
        assert len(answers) == 50
        driver = client.driver
        await client.close()
        with pytest.raises(StoreClosed):
            driver.enqueue([])  # the store that all calls have used
        with pytest.raises(StoreClosed):
            await client.get("nobody")
        await client.close()

    asyncio.run(main())
    with connect(f"sqlite:///{path}", space="mine") as store:
        assert [counts.ready for counts in store.counts()] == [50]


def test_a_client_that_was_never_used_can_be_closed_and_opens_nothing(tmp_path: Path):
    async def main() -> None:
        client = AsyncClient.open(f"sqlite:///{tmp_path}/jobs.db")
        await client.close()
        with pytest.raises(StoreClosed):
            await client.get("nobody")

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_opened_is_tried_again_by_the_next_call(tmp_path: Path):
    path = tmp_path / "later" / "jobs.db"

    async def main() -> None:
        client = AsyncClient.open(f"sqlite:///{path}")
        with pytest.raises(StoreUnavailable):
            await client.get("nobody")
        path.parent.mkdir()
        assert await client.get("nobody") is None
        await client.close()
        with pytest.raises(ConnectError):
            async with AsyncClient.open("nothing://"):
                pass

    asyncio.run(main())


def test_a_task_that_is_cancelled_while_it_opens_the_store_ends_at_once_and_the_store_is_closed():
    may_open, closed = threading.Event(), threading.Event()
    store = connect("memory://")

    def get_client() -> Client:
        assert may_open.wait(60)
        return Client(store)

    async def open_and_use() -> None:
        async with AsyncClient.from_client(get_client, close=closed.set):
            raise AssertionError("the store was opened")

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await open_and_use()
        assert not closed.is_set()
        may_open.set()
        assert await asyncio.to_thread(closed.wait, 60)

    asyncio.run(main())


def test_waiting_calls_need_few_threads_and_none_of_the_default_executor():
    """The store is busy for all calls of the client; other code still gets a thread of the loop's executor."""
    may_continue = threading.Event()
    store = connect("memory://")

    def get_client() -> Client:
        assert may_continue.wait(60)
        return Client(store)

    async def main() -> None:
        async with asyncio.timeout(60):
            client = AsyncClient.from_client(get_client)
            before = threading.active_count()
            calls = [asyncio.create_task(client.enqueue(JobRequest(type="t"))) for _ in range(300)]
            cancelled = asyncio.create_task(client.enqueue(JobRequest(type="cancelled")))
            await asyncio.sleep(0)
            assert await asyncio.to_thread(lambda: "answered") == "answered"
            assert threading.active_count() - before <= MAX_THREADS + 1
            cancelled.cancel()  # it waits for a thread
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            may_continue.set()
            assert len({answer.id for answer in await asyncio.gather(*calls)}) == 300
            await client.close()

    asyncio.run(main())
    assert [counts.ready for counts in store.counts()] == [300]  # the cancelled call has stored nothing


def test_one_client_serves_several_event_loops_one_after_another(tmp_path: Path):
    client = AsyncClient.open(f"sqlite:///{tmp_path}/jobs.db")
    answers = [asyncio.run(client.enqueue(JobRequest(type="t"))) for _ in range(3)]
    assert len({answer.id for answer in answers}) == 3
    asyncio.run(client.close())


def test_a_call_sees_the_context_variables_of_its_caller():
    tenant = contextvars.ContextVar("tenant", default="nobody")
    seen: list[str] = []
    client = Client(connect("memory://"))

    def get_client() -> Client:
        seen.append(tenant.get())
        return client

    async def main() -> None:
        tenant.set("ada")
        await AsyncClient.from_client(get_client).enqueue(JobRequest(type="t"))

    asyncio.run(main())
    assert seen == ["ada"]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # that is what is tested
def test_a_forked_process_starts_its_own_threads(tmp_path: Path):
    client = AsyncClient.open(f"sqlite:///{tmp_path}/jobs.db")
    first = asyncio.run(client.enqueue(JobRequest(type="t")))
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            record = asyncio.run(asyncio.wait_for(client.get(first.id), 60))
            os.write(writer, b"found" if record is not None else b"lost")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    assert os.read(reader, 100) == b"found"
    os.close(reader)
    asyncio.run(client.close())
