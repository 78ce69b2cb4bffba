"""A reader of the ledger never passes a transaction that can still write rows before the reader's position."""

import threading

import psycopg
import pytest

from holdfast.clock import DAY, HOUR, MINUTE, SECOND
from holdfast.driver import LedgerReader
from holdfast.drivers.requests import Purge, Trim
from holdfast.errors import InvalidInput, LedgerTrimmed
from holdfast.model.settlement import Ack
from holdfast.testing.servers.postgres import PostgresServer
from tests.postgres.conftest import NOW, open_store
from tests.waiting import wait_until

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def durable(server):
    """A store on its own server: an open transaction there delays the ledger of no other test."""
    store = open_store(server.create_database("ledger"), horizon_timeout_seconds=0.05)
    yield server.url_of("ledger"), store
    store.close()


def test_rows_of_a_transaction_that_commits_late_are_never_skipped(durable, job):
    url, store = durable
    store.enqueue([job(id=name) for name in "abc"])
    leases = {one.job.id: one.lease for one in store.reserve(["q"], limit=3, lease_for=60_000_000)}
    store.settle([Ack(leases["a"])])
    first = store.ledger()
    assert [row.job_id for row in first] == ["a"]

    with psycopg.connect(url) as late:
        late.execute("SELECT * FROM holdfast.ack('main', NULL, %s, %s, NULL, NULL, NULL)", [["b"], [leases["b"].token]])
        store.settle([Ack(leases["c"])])  # begins later and commits earlier
        held_back = store.ledger(after=first.cursor)
        assert held_back.items == []
        assert held_back.cursor == first.cursor
        late.commit()
    rest = store.ledger(after=held_back.cursor)
    assert [row.job_id for row in rest] == ["b", "c"]
    assert [row.job_id for row in store.ledger()] == ["a", "b", "c"]


def test_trimming_stops_before_a_running_transaction(server, job):
    url = server.create_database("trim")
    store = open_store(url, caller_clock=True, horizon_timeout_seconds=0.05)
    now = 1_800_000_000_000_000
    store.enqueue([job(id=name) for name in "ab"], now=now)
    a, b = store.reserve(["q"], limit=2, lease_for=1000, now=now)
    with psycopg.connect(url) as late:
        late.execute(
            "SELECT * FROM holdfast.ack('main', %s, %s, %s, NULL, NULL, NULL)", [now, [a.job.id], [a.lease.token]]
        )
        store.settle([Ack(b.lease)], now=now)
        assert store.do(Trim(ledger_for=1, now=now + 10**12)).ledger == 0
        late.commit()
    assert [row.job_id for row in store.ledger()] == ["a", "b"]
    assert store.do(Trim(ledger_for=1, now=now + 10**12)).ledger == 2
    store.close()


def test_a_cursor_of_another_server_is_refused(store):
    with pytest.raises(InvalidInput, match="cursor"):
        store.ledger(after=f"{2**60}-1")


def test_a_transaction_in_another_database_holds_no_rows_back(server, job):
    store = open_store(server.create_database("beside"), horizon_timeout_seconds=0)
    with psycopg.connect(server.url) as elsewhere:
        elsewhere.execute("SELECT pg_current_xact_id()")
        store.enqueue([job()])
        [reservation] = store.reserve(["q"], limit=1, lease_for=60_000_000)
        store.settle([Ack(reservation.lease)])
        assert len(store.ledger()) == 1
    store.close()


def test_a_prepared_transaction_in_another_database_holds_no_rows_back(job):
    with PostgresServer(settings={"max_prepared_transactions": "5"}) as server:
        store = open_store(server.create_database("beside"), horizon_timeout_seconds=0)
        with psycopg.connect(server.url) as elsewhere:
            elsewhere.execute("CREATE TABLE other (n integer)")
            elsewhere.execute("PREPARE TRANSACTION 'elsewhere'")
            elsewhere.commit()
        store.enqueue([job(id=name) for name in "ab"])
        held = store.reserve(["q"], limit=2, lease_for=600_000_000)
        store.settle([Ack(held[0].lease)])
        assert [row.job_id for row in store.ledger()] == ["a"]
        with psycopg.connect(server.url_of("beside")) as here:  # but one in this database does
            here.execute(
                "SELECT * FROM holdfast.ack('main', NULL, %s, %s, NULL, NULL, NULL)", [["b"], [held[1].lease.token]]
            )
            here.execute("PREPARE TRANSACTION 'here'")
            here.commit()
        store.enqueue([job(id="c")])
        [third] = store.reserve(["q"], limit=2, lease_for=600_000_000)
        store.settle([Ack(third.lease)])
        assert [row.job_id for row in store.ledger()] == ["a"]
        with psycopg.connect(server.url_of("beside"), autocommit=True) as here:
            here.execute("COMMIT PREPARED 'here'")
        assert [row.job_id for row in store.ledger()] == ["a", "b", "c"]
        store.close()


def test_a_job_that_ends_while_purge_looks_for_unread_rows_stays(store, job):
    """The many unread rows make the look long: jobs end between the look and the removal."""
    LedgerReader(store, "outbox").read(limit=1)
    ids = [f"late-{number:03}" for number in range(300)]
    store.enqueue([job() for _ in range(9_000)])
    store.settle([Ack(one.lease) for one in store.reserve(["q"], limit=9_000, lease_for=60 * SECOND)])
    store.enqueue([job(id=one) for one in ids])
    leases = [one.lease for one in store.reserve(["q"], limit=len(ids), lease_for=60 * SECOND)]

    def settle():
        for lease in leases:
            store.settle([Ack(lease)])

    settling = threading.Thread(target=settle)
    settling.start()
    removed = 0
    while settling.is_alive():
        removed += sum(store.do(Purge(job_ids=ids)))
    assert removed + sum(store.do(Purge(job_ids=ids))) == 0


def test_a_reader_does_not_miss_rows_that_are_trimmed_while_it_reads(store, session, url, job):
    """The table lock stops the reader where it reads rows, after it has looked how far the ledger was trimmed."""
    store.enqueue([job(id=name) for name in "abc"], now=NOW)
    store.settle([Ack(one.lease) for one in store.reserve(["q"], limit=3, lease_for=SECOND, now=NOW)], now=NOW)
    first = store.ledger(limit=1)
    store.enqueue([job(id="d")], now=NOW + HOUR)
    store.settle(
        [Ack(one.lease) for one in store.reserve(["q"], limit=1, lease_for=SECOND, now=NOW + HOUR)], now=NOW + HOUR
    )
    answers = []

    def read():
        try:
            answers.append([row.job_id for row in store.ledger(first.cursor)])
        except LedgerTrimmed as error:
            answers.append(error)

    reading = threading.Thread(target=read)
    with psycopg.connect(url, options="-c search_path=holdfast") as other:
        other.execute("SELECT FROM trim_expired('main', %s, %s, %s, 100)", [NOW + HOUR, DAY, MINUTE])
        other.execute("LOCK TABLE ledger IN ACCESS EXCLUSIVE MODE")
        reading.start()
        wait_until(lambda: session.execute(WAITING).fetchone()[0])
    reading.join()
    [answer] = answers
    assert isinstance(answer, LedgerTrimmed), answer
