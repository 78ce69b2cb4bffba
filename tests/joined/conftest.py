"""Stores in databases of applications: the application has a table ``orders``, and other connections than the store."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

import holdfast
from holdfast import Client


@pytest.fixture(scope="module")
def postgres_url(postgres_database):
    url = postgres_database()
    with psycopg.connect(url) as session:
        session.execute("CREATE TABLE orders (id serial PRIMARY KEY)")
    return url


@pytest.fixture(scope="module")
def other_postgres_url(postgres_database):
    """A database without tables of Holdfast."""
    return postgres_database(empty=True)


@pytest.fixture(scope="module")
def postgres_store(postgres_url):
    with holdfast.connect(postgres_url) as store:
        yield store


@pytest.fixture(scope="module")
def sqlite_url(tmp_path_factory):
    path = tmp_path_factory.mktemp("shop") / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    return f"sqlite:///{path}"


@pytest.fixture(scope="module")
def sqlite_store(sqlite_url):
    with holdfast.connect(sqlite_url) as store:
        yield store


@pytest.fixture
def postgres_client(postgres_store):
    return Client(postgres_store)


@pytest.fixture
def sqlite_client(sqlite_store):
    return Client(sqlite_store)


@pytest.fixture(params=["postgres", "sqlite"])
def database(request):
    """The name of a driver; ``url`` and ``client`` are those of its database."""
    return request.param


@pytest.fixture
def url(request, database):
    return request.getfixturevalue(f"{database}_url")


@pytest.fixture
def client(request, database):
    return request.getfixturevalue(f"{database}_client")
