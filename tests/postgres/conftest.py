from urllib.parse import urlsplit

import psycopg
import pytest

import holdfast
from holdfast.clock import SECOND
from holdfast.drivers.postgres import arrays
from holdfast.drivers.postgres.engine import open_url
from holdfast.drivers.postgres.timing import PostgresTiming
from holdfast.drivers.store import Store
from holdfast.model.job import JobRecord
from holdfast.testing.servers.postgres import PostgresServer

NOW = 1_800_000_000 * SECOND
WITHOUT_PAYLOADS = """
-- The tables before 012.
ALTER TABLE jobs DROP COLUMN payload_seq, ALTER COLUMN payload SET NOT NULL;
ALTER TABLE ended DROP COLUMN payload_seq, ALTER COLUMN payload SET NOT NULL;
DROP TABLE payloads CASCADE
"""


@pytest.fixture
def url(postgres_database):
    """The URL of a database with the tables of a store, on the server that all tests of the run share."""
    return postgres_database()


@pytest.fixture
def empty_url(postgres_database):
    """The URL of a database without tables."""
    return postgres_database(empty=True)


def open_store(url: str, *, caller_clock: bool = False, **timing: float) -> Store:
    """Open a store with other time constants."""
    return open_url(urlsplit(url), space="main", caller_clock=caller_clock, clock=None, timing=PostgresTiming(**timing))


@pytest.fixture
def store(url):
    opened = holdfast.connect(url, caller_clock=True)
    yield opened
    opened.close()


@pytest.fixture
def session(url, store):
    """A connection of the test to the database of ``store``; its search path is the schema of the store."""
    with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as connection:
        yield connection


@pytest.fixture
def other(url, store):
    """Another session in the database of ``store``: one transaction, which the test ends."""
    with psycopg.connect(url, options="-c search_path=holdfast") as connection:
        arrays.register(connection.adapters)
        yield connection
        connection.rollback()


@pytest.fixture(scope="module")
def server():
    """A durable server for one module, which its tests may kill."""
    with PostgresServer() as started:
        yield started


@pytest.fixture
def job():
    """A factory of records with growing ids; a test passes the fields that matter to it."""
    counter = iter(range(10**6))

    def make(**fields) -> JobRecord:
        defaults = {"id": f"job-{next(counter):06}", "type": "t", "queue": "q", "payload": b"{}", "created_at": NOW}
        return JobRecord(**{**defaults, **fields})

    return make
