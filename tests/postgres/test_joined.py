"""Enqueue inside the caller's own transaction: the job exists if, and only if, the caller commits."""

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.rows import dict_row

import holdfast
from holdfast.drivers.requests import Configure
from holdfast.errors import InvalidInput, StoreUnavailable, Unsupported
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack
from tests.postgres.conftest import NOW


@pytest.fixture
def connection(url, store):
    with psycopg.connect(url, row_factory=dict_row) as opened:
        opened.execute("CREATE TABLE orders (id integer PRIMARY KEY)")
        opened.commit()
        yield opened


def count_orders(connection):
    return connection.execute("SELECT count(*) AS n FROM orders").fetchone()["n"]


@pytest.mark.parametrize("count", [1, 600])  # by the function, and by COPY
def test_a_rollback_removes_the_jobs(store, connection, job, count):
    connection.execute("INSERT INTO orders VALUES (1)")
    jobs = [job(domain="d") for _ in range(count)]
    assert not any(answer.existed for answer in store.joined(connection).enqueue(jobs, now=NOW))
    connection.rollback()
    assert store.counts(now=NOW) == []
    assert store.reserve(["q"], limit=10, lease_for=1000, now=NOW) == []
    assert count_orders(connection) == 0


def test_a_key_of_a_rolled_back_job_can_be_used_again(store, connection, job):
    store.joined(connection).enqueue([job(id="a", idempotency_key="k")], now=NOW)
    connection.rollback()
    [answer] = store.enqueue([job(id="b", idempotency_key="k")], now=NOW)
    assert (answer.id, answer.existed) == ("b", False)


@pytest.mark.parametrize("count", [3, 600])
def test_a_commit_makes_both_durable(store, connection, job, count):
    connection.execute("INSERT INTO orders VALUES (1)")
    jobs = [job(), *(job(domain="d") for _ in range(count - 1))]
    store.joined(connection).enqueue(jobs, now=NOW)
    assert store.reserve(["q"], limit=10, lease_for=1000, now=NOW) == []
    connection.commit()
    reserved = store.reserve(["q"], limit=10, lease_for=1000, now=NOW)
    assert [reservation.job.id for reservation in reserved] == [jobs[0].id, jobs[1].id]
    assert count_orders(connection) == 1


def test_an_open_transaction_blocks_no_other_session(store, connection, job):
    """Not even in a domain or lane whose first job it has enqueued."""
    store.joined(connection).enqueue([job(domain="d"), job(type="new")], now=NOW)
    committed = [job(domain="d") for _ in range(2)]
    store.enqueue(committed, now=NOW)
    for wanted in committed:
        [reservation] = store.reserve(["q"], limit=5, lease_for=1000, now=NOW)
        assert reservation.job.id == wanted.id
        assert store.settle([Ack(reservation.lease)], now=NOW) == [None]
    connection.commit()
    assert len(store.reserve(["q"], limit=5, lease_for=1000, now=NOW)) == 2


def test_existing_keys_and_ids_are_answered_as_in_a_plain_enqueue(store, connection, job):
    store.enqueue([job(id="a", idempotency_key="k")], now=NOW)
    answers = store.joined(connection).enqueue([job(id="a"), job(id="b", idempotency_key="k", payload=b"[]")], now=NOW)
    connection.commit()
    assert [(answer.id, answer.existed, answer.conflict) for answer in answers] == [
        ("a", True, False),
        ("a", True, True),
    ]


def test_an_invalid_record_does_not_change_the_callers_transaction(store, connection, job):
    connection.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(InvalidInput):
        store.joined(connection).enqueue([job(id="a"), job(priority=10)], now=NOW)
    connection.commit()
    assert store.get("a") is None
    assert count_orders(connection) == 1


def test_the_callers_connection_keeps_its_row_factory(store, connection, job):
    store.joined(connection).enqueue([job()], now=NOW)
    assert connection.row_factory is dict_row
    assert connection.execute("SELECT 1 AS one").fetchone() == {"one": 1}


def test_an_autocommit_connection_outside_of_a_transaction_is_refused(store, connection, job):
    connection.autocommit = True
    with pytest.raises(InvalidInput, match="inside a transaction"):
        store.joined(connection).enqueue([job()], now=NOW)
    with connection.transaction():
        store.joined(connection).enqueue([job()], now=NOW)
    assert store.counts(now=NOW)[0].ready == 1


def test_an_object_that_is_not_a_connection_is_refused(store, job):
    with pytest.raises(InvalidInput, match=r"psycopg\.Connection.*got str"):
        store.joined("postgresql://").enqueue([job()], now=NOW)


def test_an_aborted_transaction_raises_a_store_error(store, connection, job):
    with pytest.raises(psycopg.Error):
        connection.execute("SELECT 1 / 0")
    with pytest.raises(StoreUnavailable, match="aborted"):
        store.joined(connection).enqueue([job()], now=NOW)


def test_every_other_verb_is_refused(store, connection):
    joined = store.joined(connection)
    for call in (
        lambda: joined.reserve(["q"], limit=1, lease_for=1),
        lambda: joined.settle([]),
        lambda: joined.extend([], lease_for=1),
        joined.reap,
        lambda: joined.wait(["q"], timeout=1),
        lambda: joined.space("other"),
        lambda: joined.joined(connection),
    ):
        with pytest.raises(Unsupported, match="enqueue"):
            call()


@pytest.mark.parametrize("count", [1, 600])  # by the function, and by COPY
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_transaction_with_one_snapshot_is_refused_and_stays_usable(store, connection, job, level, count):
    """It does not see jobs that ended after it began, and would store a repeated id a second time."""
    connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
    connection.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(InvalidInput, match=f"READ COMMITTED.*got {level.lower()}"):
        store.joined(connection).enqueue([job() for _ in range(count)], now=NOW)
    connection.commit()
    assert count_orders(connection) == 1
    assert store.counts(now=NOW) == []


def test_a_repeated_id_is_never_stored_beside_its_ended_job(store, connection, job):
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    store.enqueue([job(id="a")], now=NOW)
    connection.execute("SELECT 1 FROM orders")  # the snapshot of the transaction
    [reservation] = store.reserve(["q"], limit=1, lease_for=1000, now=NOW)
    store.settle([Ack(reservation.lease)], now=NOW)
    with pytest.raises(InvalidInput):
        store.joined(connection).enqueue([job(id="a")], now=NOW)
    connection.commit()
    assert store.reserve(["q"], limit=1, lease_for=1000, now=NOW) == []


def test_a_connection_to_another_database_with_holdfast_tables_is_refused(store, postgres_database, job):
    other_url = postgres_database()
    with holdfast.connect(other_url, caller_clock=True) as other, psycopg.connect(other_url) as connection:
        with pytest.raises(InvalidInput, match="same database"):
            store.joined(connection).enqueue([job(id="a")], now=NOW)
        other.joined(connection).enqueue([job(id="b")], now=NOW)  # the transaction is still usable
        connection.commit()
        assert other.get("a") is None
        assert other.get("b") is not None


def test_a_connection_to_a_copy_on_another_server_is_refused(store, server, job):
    other_url = server.create_database("copy")
    with holdfast.connect(other_url, caller_clock=True) as other, psycopg.connect(other_url) as connection:
        with pytest.raises(InvalidInput, match="same database"):
            store.joined(connection).enqueue([job(id="a")], now=NOW)
        connection.rollback()
        assert other.get("a") is None


def test_a_connection_to_a_database_without_holdfast_tables_is_refused_and_stays_usable(store, postgres_database, job):
    with psycopg.connect(postgres_database(empty=True)) as connection:
        with pytest.raises(InvalidInput, match="same database"):
            store.joined(connection).enqueue([job()], now=NOW)
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_key_that_was_waited_for_is_not_taken_over_while_its_job_is_open(url, store, connection, job):
    """The second enqueue begins before the first commits, and ends after the window of the first."""
    store.do(Configure(queue="q", settings=QueueSettings(dedupe_window=1)))
    store.joined(connection).enqueue([job(id="a", idempotency_key="k")], now=NOW)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(store.enqueue, [job(id="b", idempotency_key="k")], now=NOW + 10)
        wait_until_blocked(url)
        connection.commit()
        assert [(one.id, one.existed) for one in second.result(30)] == [("a", True)]
    assert store.get("b") is None


def test_a_turn_is_given_by_one_session_at_a_time(url, store, connection, job):
    """The job that arrived first is committed after another session gave the turn to the second job."""
    store.joined(connection).enqueue([job(id="first", domain="d")], now=NOW)
    store.enqueue([job(id="second", domain="d")], now=NOW)
    call = "SELECT id FROM reserve('main', %s, ARRAY['q'], NULL, 1, 1000, '', %s, NULL, 'share', false)"
    with psycopg.connect(url, options="-c search_path=holdfast") as other, ThreadPoolExecutor(1) as pool:
        assert other.execute(call, [NOW, bytes(16)]).fetchall() == [("second",)]
        connection.commit()
        waiting = pool.submit(store.reserve, ["q"], limit=9, lease_for=1000, now=NOW)
        wait_until_blocked(url)
        other.commit()
        assert waiting.result(30) == []


def wait_until_blocked(url):
    """Wait until a session of the database waits for the lock of another one."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    deadline = time.monotonic() + 30
    with psycopg.connect(url, autocommit=True) as session:
        while session.execute(query).fetchone() == (0,):
            assert time.monotonic() < deadline, "no session waits for a lock"
            time.sleep(0.005)
