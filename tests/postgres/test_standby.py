"""A reader of the ledger on a hot standby skips no row, however late the transaction of the row commits."""

import time

import psycopg
import pytest

import holdfast
from holdfast.drivers.requests import LedgerEnd, ReadTuples
from holdfast.errors import StoreUnavailable
from holdfast.model.settlement import Ack
from holdfast.testing.servers.postgres import PostgresServer
from tests.postgres.conftest import open_store

ACK = "SELECT * FROM holdfast.ack('main', NULL, %s, %s, NULL, NULL, NULL)"
REPLAY_TIMEOUT_SECONDS = 60

pytestmark = pytest.mark.xdist_group("standby")  # one pair of servers


@pytest.fixture(scope="module")
def primary():
    with PostgresServer(settings={"max_prepared_transactions": "5"}) as started:
        yield started


@pytest.fixture(scope="module")
def standby(primary):
    with PostgresServer(standby_of=primary) as started:
        yield started


@pytest.fixture(params=["plain", "savepoint", "many savepoints", "prepared"])
def finish_late(request):
    """Functions that a transaction runs before its ack, after it, and to commit."""

    def begin(connection):
        for number in range({"savepoint": 1, "many savepoints": 200}.get(request.param, 0)):
            connection.execute(f"SAVEPOINT s{number}")
            connection.execute("SELECT nextval('holdfast.counter')")
            connection.execute(f"CREATE TEMPORARY TABLE t{number} (n integer)")  # gives the savepoint its own number

    def suspend(connection):
        if request.param == "prepared":
            connection.execute("PREPARE TRANSACTION 'late'")

    def commit(connection, url):
        if request.param == "prepared":
            with psycopg.connect(url, autocommit=True) as other:
                other.execute("COMMIT PREPARED 'late'")
        else:
            connection.commit()

    return begin, suspend, commit


def wait_for_replay(primary, standby):
    """Wait until the standby has replayed everything that the primary has committed."""
    with psycopg.connect(primary.url, autocommit=True) as session:
        [lsn] = session.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
    deadline = time.monotonic() + REPLAY_TIMEOUT_SECONDS
    with psycopg.connect(standby.url, autocommit=True) as session:
        while session.execute("SELECT pg_last_wal_replay_lsn() < %s", [lsn]).fetchone() != (False,):
            assert time.monotonic() < deadline, "the standby does not replay"
            time.sleep(0.01)


def test_rows_that_commit_late_are_never_skipped(request, primary, standby, finish_late, job):
    begin, suspend, commit = finish_late
    name = request.node.callspec.id.replace(" ", "_")
    url = primary.create_database(name)
    store = holdfast.connect(url)
    store.enqueue([job(id=name) for name in "abc"])
    leases = {one.job.id: one.lease for one in store.reserve(["q"], limit=3, lease_for=600_000_000)}
    store.settle([Ack(leases["a"])])
    wait_for_replay(primary, standby)
    with open_store(standby.url_of(name), horizon_timeout_seconds=0.05) as replica:
        read = [row.job_id for row in replica.ledger()]
        assert read == ["a"]
        late = psycopg.connect(url, prepare_threshold=None)
        begin(late)
        late.execute(ACK, [["b"], [leases["b"].token]])
        suspend(late)
        store.settle([Ack(leases["c"])])  # begins later and commits earlier
        wait_for_replay(primary, standby)
        page = replica.ledger()
        assert [row.job_id for row in page] == ["a"]
        rows, cursor = replica.do(ReadTuples(limit=10))
        assert (len(rows), cursor) == (1, page.cursor)
        assert replica.do(LedgerEnd()) == page.cursor
        commit(late, url)
        wait_for_replay(primary, standby)
        assert [row.job_id for row in replica.ledger(after=page.cursor)] == ["b", "c"]
        late.close()
    store.close()


def test_a_standby_refuses_every_change(primary, standby, job):
    url = primary.create_database("changes")
    holdfast.connect(url).close()
    wait_for_replay(primary, standby)
    with (
        holdfast.connect(f"{standby.url_of('changes')}?patience=0.1") as replica,
        pytest.raises(StoreUnavailable, match=r"recovery|read-only"),
    ):
        replica.enqueue([job()])
