"""Enqueue inside transactions of SQLAlchemy, SQLModel and Django: the job exists if, and only if, they commit."""

import asyncio

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from holdfast import AsyncClient, JobRequest
from holdfast.driver import JobRecord
from holdfast.errors import InvalidInput, StoreUnavailable
from tests.callers import CALLERS, django_database, name_of, sqlalchemy_session, undone

REQUEST = JobRequest(type="order.ship")


@pytest.fixture(params=CALLERS, ids=name_of)
def open_caller(request):
    return request.param


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_a_commit_makes_the_job_exist_once(url, client, open_caller, is_first):
    """Also if the enqueue is the first statement, with which the library begins its transaction."""
    with open_caller(url) as caller:
        if not is_first:
            caller.execute("INSERT INTO orders DEFAULT VALUES")
        answer = client.enqueue(REQUEST, connection=caller.connection)
        assert client.get(answer.id) is None
        caller.commit()
    assert client.get(answer.id).state == "ready"


def test_a_rollback_removes_the_job(url, client, open_caller):
    with open_caller(url) as caller:
        caller.execute("INSERT INTO orders DEFAULT VALUES")
        answer = client.enqueue(REQUEST, connection=caller.connection)
        caller.rollback()
    assert client.get(answer.id) is None


def test_a_savepoint_that_is_rolled_back_removes_its_job_only(url, client, open_caller):
    with open_caller(url) as caller:
        outer = client.enqueue(REQUEST, connection=caller.connection)
        with undone(caller.savepoint()):
            inner = client.enqueue(REQUEST, connection=caller.connection)
        caller.commit()
    assert client.get(outer.id) is not None
    assert client.get(inner.id) is None


def test_autocommit_is_refused(url, client, open_caller):
    with open_caller(url, "AUTOCOMMIT") as caller, pytest.raises(InvalidInput, match="inside a transaction"):
        client.enqueue(REQUEST, connection=caller.connection)


# PostgreSQL --------------------------------------------------------------------------------------------------


def test_large_batches_and_repeated_ids(postgres_url, postgres_client, postgres_store, open_caller):
    with open_caller(postgres_url) as caller:
        answers = postgres_client.enqueue_many(REQUEST, range(600), connection=caller.connection)
        caller_name = name_of(open_caller)
        record = JobRecord(id=caller_name, type="t", queue="q", payload=b"1", created_at=0)
        repeated = postgres_store.joined(caller.connection).enqueue([record, record])
        assert [answer.existed for answer in repeated] == [False, True]
        caller.commit()
    for job_id in (answers[0].id, answers[-1].id, caller_name):
        assert postgres_client.get(job_id) is not None


def test_another_database_is_refused_and_the_transaction_stays_usable(other_postgres_url, postgres_client, open_caller):
    with open_caller(other_postgres_url) as caller:
        caller.execute("SELECT 1")
        with pytest.raises(InvalidInput, match="same database"):
            postgres_client.enqueue(REQUEST, connection=caller.connection)
        caller.execute("SELECT 1")
        caller.commit()


def test_a_transaction_with_one_snapshot_is_refused(postgres_url, postgres_client, open_caller):
    with open_caller(postgres_url, "REPEATABLE READ") as caller:
        with pytest.raises(InvalidInput, match=r"READ COMMITTED.*got repeatable read"):
            postgres_client.enqueue(REQUEST, connection=caller.connection)
        caller.commit()


def test_an_aborted_transaction_raises_a_store_error(postgres_url, postgres_client, open_caller):
    with open_caller(postgres_url) as caller:
        with pytest.raises(Exception, match="division by zero"):
            caller.execute("SELECT 1 / 0")
        with pytest.raises(StoreUnavailable, match="aborted"):
            postgres_client.enqueue(REQUEST, connection=caller.connection)
        caller.rollback()


def test_on_commit_of_django_runs_after_the_job_exists(postgres_url, postgres_client):
    """``on_commit`` itself is not durable: a process that dies after the commit never calls it."""
    from django.db import transaction

    seen = []
    with django_database(postgres_url) as connection:
        with transaction.atomic(using=connection.alias):
            transaction.on_commit(lambda: seen.append(postgres_client.get(answer.id)), using=connection.alias)
            answer = postgres_client.enqueue(REQUEST, connection=connection)
            assert seen == []
        assert [record.id for record in seen] == [answer.id]


def test_a_session_on_another_database_driver_is_refused(postgres_client, sqlite_url):
    with (
        sqlalchemy_session(sqlite_url) as caller,
        pytest.raises(InvalidInput, match=r"psycopg\.Connection.*got sqlite3\.Connection"),
    ):
        postgres_client.enqueue(REQUEST, connection=caller.connection)


# SQLite ------------------------------------------------------------------------------------------------------


def test_another_file_is_refused(sqlite_client, tmp_path, open_caller):
    with open_caller(f"sqlite:///{tmp_path}/other.db") as caller:
        caller.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        with pytest.raises(InvalidInput, match=r"other\.db"):
            sqlite_client.enqueue(REQUEST, connection=caller.connection)
        caller.commit()


@pytest.mark.parametrize("kind", [psycopg.AsyncConnection, AsyncSession], ids=name_of)
def test_an_async_connection_is_refused(sqlite_client, kind):
    connection = kind.__new__(kind)  # not open: it is not used

    async def enqueue():
        await AsyncClient.from_client(lambda: sqlite_client).enqueue(REQUEST, connection=connection)

    wanted = f"SQLite cannot join the transaction of an async one, got a .*{kind.__name__}"
    for call in (lambda: sqlite_client.enqueue(REQUEST, connection=connection), lambda: asyncio.run(enqueue())):
        with pytest.raises(InvalidInput, match=wanted):
            call()
