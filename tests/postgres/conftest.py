import psycopg
import pytest

import holdfast
from holdfast.clock import SECOND
from holdfast.model.job import JobRecord
from holdfast.testing.servers.postgres import PostgresServer

NOW = 1_800_000_000 * SECOND


@pytest.fixture
def url(postgres_database):
    """An empty database on the quick server that the whole run shares."""
    return postgres_database()


@pytest.fixture
def store(url):
    made = holdfast.connect(url, caller_clock=True)
    yield made
    made.close()


@pytest.fixture
def session(url, store):
    """A connection beside the driver's, that sees its tables."""
    with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as made:
        yield made


@pytest.fixture(scope="module")
def server():
    """A durable server of this module's own, to be killed."""
    with PostgresServer() as made:
        yield made


@pytest.fixture
def job():
    """Makes records that differ only in what a test says."""
    counter = iter(range(10**6))

    def make(**fields) -> JobRecord:
        plain = {"id": f"job-{next(counter):06}", "type": "t", "queue": "q", "payload": b"{}", "created_at": NOW}
        return JobRecord(**{**plain, **fields})

    return make
