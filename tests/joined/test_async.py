"""Enqueue inside transactions of async libraries: the connection is used on its event loop, never in a thread."""

import asyncio
import threading
from dataclasses import replace

import asyncpg
import psycopg
import pytest

from holdfast import AsyncClient, Holdfast, JobRequest
from holdfast.errors import InvalidInput, StoreUnavailable
from tests.callers import ASYNC_CALLERS, asyncpg_connection, django_database, name_of, psycopg_async, undone_async

REQUEST = JobRequest(type="order.ship")


@pytest.fixture
def database():
    """Only PostgreSQL has async connections."""
    return "postgres"


@pytest.fixture
def client(postgres_client):
    return AsyncClient.from_client(lambda: postgres_client)


@pytest.fixture(params=ASYNC_CALLERS, ids=name_of)
def open_caller(request):
    return request.param


def run(scenario):
    async def bounded():
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(bounded())


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_a_commit_makes_the_job_exist_once(url, client, open_caller, is_first):
    async def scenario():
        async with open_caller(url) as caller:
            if not is_first:
                await caller.execute("INSERT INTO orders DEFAULT VALUES")
            answer = await client.enqueue(REQUEST, connection=caller.connection)
            assert await client.get(answer.id) is None
            await caller.commit()
        assert (await client.get(answer.id)).state == "ready"

    run(scenario)


def test_a_rollback_removes_the_job(url, client, open_caller):
    async def scenario():
        async with open_caller(url) as caller:
            await caller.execute("INSERT INTO orders DEFAULT VALUES")
            answer = await client.enqueue(REQUEST, connection=caller.connection)
            await caller.rollback()
        assert await client.get(answer.id) is None

    run(scenario)


def test_a_savepoint_that_is_rolled_back_removes_its_job_only(url, client, open_caller):
    async def scenario():
        async with open_caller(url) as caller:
            outer = await client.enqueue(REQUEST, connection=caller.connection)
            async with undone_async(caller.savepoint()):
                inner = await client.enqueue(REQUEST, connection=caller.connection)
            await caller.commit()
        assert await client.get(outer.id) is not None
        assert await client.get(inner.id) is None

    run(scenario)


def test_every_field_arrives_as_in_a_plain_enqueue(url, client, open_caller):
    request = JobRequest(
        type="order.ship",
        payload={"text": "grüße", "none": None},
        queue="async",
        priority=7,
        domain=name_of(open_caller),
        idempotency_key=f"key of {name_of(open_caller)}",
        meta={"tenant": "ada"},
        max_attempts=3,
    )

    async def scenario():
        async with open_caller(url) as caller:
            answer = await client.enqueue(request, connection=caller.connection)
            again = await client.enqueue(request, connection=caller.connection)
            assert (again.id, again.existed, again.conflict) == (answer.id, True, False)
            many = await client.enqueue_many(REQUEST, range(600), connection=caller.connection)
            await caller.commit()
        record = await client.get(answer.id)
        assert (record.payload, record.queue, record.priority) == ('{"text":"grüße","none":null}'.encode(), "async", 7)
        assert (record.domain, record.max_attempts, record.meta) == (name_of(open_caller), 3, {"tenant": "ada"})
        assert record.idempotency_key == request.idempotency_key
        assert [(await client.get(job.id)).payload for job in (many[0], many[-1])] == [b"0", b"599"]

    run(scenario)


def test_another_database_is_refused_and_the_transaction_stays_usable(other_postgres_url, client, open_caller):
    async def scenario():
        async with open_caller(other_postgres_url) as caller:
            with pytest.raises(InvalidInput, match="same database"):
                await client.enqueue(REQUEST, connection=caller.connection)
            await caller.execute("SELECT 1")
            await caller.commit()

    run(scenario)


def test_a_transaction_with_one_snapshot_is_refused(url, client, open_caller):
    async def scenario():
        async with open_caller(url, "REPEATABLE READ") as caller:
            with pytest.raises(InvalidInput, match=r"READ COMMITTED.*got repeatable read"):
                await client.enqueue(REQUEST, connection=caller.connection)
            await caller.commit()

    run(scenario)


def test_autocommit_is_refused(url, client, open_caller):
    async def scenario():
        async with open_caller(url, "AUTOCOMMIT") as caller:
            with pytest.raises(InvalidInput, match="inside a transaction"):
                await client.enqueue(REQUEST, connection=caller.connection)

    run(scenario)


def test_an_aborted_transaction_raises_a_store_error(url, client, open_caller):
    async def scenario():
        async with open_caller(url) as caller:
            with pytest.raises(Exception, match="division by zero"):
                await caller.execute("SELECT 1 / 0")
            with pytest.raises(StoreUnavailable, match="aborted"):
                await client.enqueue(REQUEST, connection=caller.connection)
            await caller.rollback()

    run(scenario)


def test_a_sync_client_refuses_an_async_connection(url, postgres_client, open_caller):
    async def scenario():
        async with open_caller(url) as caller:
            with pytest.raises(InvalidInput, match=r"await task\.aenqueue.*await AsyncClient\.enqueue"):
                postgres_client.enqueue(REQUEST, connection=caller.connection)
            await caller.commit()

    run(scenario)


@pytest.mark.parametrize("open_caller", [psycopg_async, asyncpg_connection], ids=name_of)
def test_a_cancelled_call_no_longer_uses_the_connection(url, client, open_caller):
    """The call waits for a key that another transaction has entered. After the cancellation the caller rolls back."""

    async def scenario():
        request = JobRequest(type="t", idempotency_key=f"cancelled {name_of(open_caller)}")
        async with open_caller(url) as first, open_caller(url) as second:
            await client.enqueue(request, connection=first.connection)
            waiting = asyncio.create_task(client.enqueue(request, connection=second.connection))
            await wait_until_blocked(url)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await second.rollback()  # an operation in progress would refuse it
            await first.commit()

    run(scenario)


def test_calls_that_wait_for_a_transaction_do_not_keep_it_from_its_next_call(url, client):
    """They wait for a key of the transaction, in all threads of the client; the transaction still gets a thread."""

    async def scenario():
        request = JobRequest(type="t", idempotency_key="taken")
        async with psycopg_async(url) as caller:
            answer = await client.enqueue(request, connection=caller.connection)
            waiting = [asyncio.create_task(client.enqueue(request)) for _ in range(20)]
            await wait_until_blocked(url)
            await client.enqueue(REQUEST, connection=caller.connection)
            await caller.commit()
            assert {each.id for each in await asyncio.gather(*waiting)} == {answer.id}

    run(scenario)


def test_an_app_enqueues_in_an_async_transaction_through_its_middleware(url, postgres_store):
    app = Holdfast(driver=postgres_store)

    @app.handler("order.ship")
    async def ship(order: int): ...

    @app.enqueue_middleware
    def add_tenant(requests, call_next):
        return call_next([replace(request, meta={"tenant": "ada"}) for request in requests])

    async def scenario():
        async with asyncpg_connection(url) as caller:
            answer = await ship.aenqueue(1, connection=caller.connection)
            await caller.rollback()
        assert await app.async_client.get(answer.id) is None
        async with asyncpg_connection(url) as caller:
            answer = await ship.aenqueue(1, connection=caller.connection)
            await caller.commit()
        assert (await app.async_client.get(answer.id)).meta == {"tenant": "ada"}

    run(scenario)


def test_a_synchronous_connection_is_used_in_a_thread(url, client):
    async def scenario():
        with psycopg.connect(url) as connection:
            answer = await client.enqueue(REQUEST, connection=connection)
            connection.rollback()
        assert await client.get(answer.id) is None

    run(scenario)


def test_the_connection_is_used_in_the_thread_of_its_event_loop(url, client):
    class Watched(asyncpg.Connection):
        async def fetch(self, *arguments, **keywords):
            threads.add(threading.get_ident())
            return await super().fetch(*arguments, **keywords)

    threads = set()

    async def scenario():
        connection = await asyncpg.connect(url, connection_class=Watched)
        async with connection.transaction():
            await client.enqueue(REQUEST, connection=connection)
        await connection.close()
        assert threads == {threading.get_ident()}

    run(scenario)


def test_a_connection_of_django_is_refused_in_async_code(url, client):
    async def scenario(connection):
        with pytest.raises(InvalidInput, match="belongs to one thread"):
            await client.enqueue(REQUEST, connection=connection)

    with django_database(url) as connection:
        run(lambda: scenario(connection))


async def wait_until_blocked(url):
    """Wait until a session of the database waits for the lock of another one."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    connection = await asyncpg.connect(url)
    while not await connection.fetchval(query):  # noqa: ASYNC110 - the event is in the server
        await asyncio.sleep(0.005)
    await connection.close()
