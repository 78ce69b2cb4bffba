"""Enqueue inside transactions of SQLAlchemy, SQLModel and Django: the job exists if, and only if, they commit."""

import asyncio

import psycopg
import pytest

import holdfast
from holdfast import AsyncClient, Client, JobRequest
from holdfast.errors import InvalidInput
from tests.callers import CALLERS, name_of, undone

REQUEST = JobRequest(type="order.ship")


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/shop.db"


@pytest.fixture
def client(url):
    with holdfast.connect(url) as store:
        yield Client(store)


@pytest.fixture(params=CALLERS, ids=name_of)
def open_caller(request):
    return request.param


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_a_commit_makes_the_job_exist_once(url, client, open_caller, is_first):
    """Also if the enqueue is the first statement of the transaction."""
    with open_caller(url) as caller:
        if not is_first:
            caller.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        answer = client.enqueue(REQUEST, connection=caller.connection)
        assert client.get(answer.id) is None
        caller.commit()
    assert client.get(answer.id).state == "ready"


def test_a_rollback_removes_the_job(url, client, open_caller):
    with open_caller(url) as caller:
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


def test_another_file_is_refused(client, tmp_path, open_caller):
    with open_caller(f"sqlite:///{tmp_path}/other.db") as caller:
        caller.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        with pytest.raises(InvalidInput, match=r"other\.db"):
            client.enqueue(REQUEST, connection=caller.connection)
        caller.commit()


def test_autocommit_is_refused(url, client, open_caller):
    with open_caller(url, "AUTOCOMMIT") as caller, pytest.raises(InvalidInput, match="inside a transaction"):
        client.enqueue(REQUEST, connection=caller.connection)


def test_an_async_connection_is_refused(client):
    connection = psycopg.AsyncConnection.__new__(psycopg.AsyncConnection)  # not open: it is not used

    async def enqueue():
        await AsyncClient.from_client(lambda: client).enqueue(REQUEST, connection=connection)

    for call in (lambda: client.enqueue(REQUEST, connection=connection), lambda: asyncio.run(enqueue())):
        with pytest.raises(InvalidInput, match="connection"):
            call()
