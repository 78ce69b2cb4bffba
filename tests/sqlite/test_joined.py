"""Enqueue inside the caller's own transaction: the job exists if, and only if, the caller commits."""

import sqlite3
import sys
from contextlib import closing

import pytest

import holdfast
from holdfast import Client, Holdfast, JobRequest
from holdfast.client import MAX_BATCH_JOBS
from holdfast.drivers.sqlite.migrations import load, migrate
from holdfast.errors import InvalidInput, StoreBusy, Unsupported
from tests.sqlite.conftest import NOW

AUTOCOMMIT_MODES = [{"isolation_level": None}]
if sys.version_info >= (3, 12):
    AUTOCOMMIT_MODES.append({"autocommit": True})


@pytest.fixture(params=["implicit", "autocommit"])
def connection(path, store, request):
    connection = sqlite3.connect(path, isolation_level=None if request.param == "autocommit" else "DEFERRED")
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connection.row_factory = sqlite3.Row
    yield connection
    connection.close()


def test_a_rollback_removes_the_job(store, connection, job):
    joined = store.joined(connection)
    connection.execute("BEGIN")
    connection.execute("INSERT INTO orders VALUES (1)")
    [answer] = joined.enqueue([job(id="a", idempotency_key="k", domain="d")], now=NOW)
    assert not answer.existed
    connection.rollback()
    assert store.get("a") is None
    assert connection.execute("SELECT count(*) FROM orders").fetchone()[0] == 0
    [again] = store.enqueue([job(id="b", idempotency_key="k")], now=NOW)
    assert not again.existed


def test_all_batches_of_a_generator_are_part_of_the_callers_transaction(store, connection):
    connection.execute("BEGIN")
    payloads = (number for number in range(MAX_BATCH_JOBS + 1))
    answers = Client(store).enqueue_many(JobRequest(type="t"), payloads, connection=connection)
    assert store.get(answers[0].id) is None
    connection.rollback()
    assert store.counts() == []


def test_a_commit_makes_both_durable(store, connection, job):
    connection.execute("BEGIN")
    connection.execute("INSERT INTO orders VALUES (1)")
    store.joined(connection).enqueue([job(id="a"), job(id="b", domain="d"), job(id="c", domain="d")], now=NOW)
    connection.commit()
    reserved = store.reserve(["q"], limit=10, lease_for=1000, now=NOW)
    assert [reservation.job.id for reservation in reserved] == ["a", "b"]
    assert connection.execute("SELECT count(*) FROM orders").fetchone()[0] == 1


def test_without_a_transaction_enqueue_begins_one_and_the_caller_commits_it(path, store, job):
    with closing(sqlite3.connect(path)) as connection:
        store.joined(connection).enqueue([job(id="a")], now=NOW)
        assert connection.in_transaction
        assert store.get("a") is None
        connection.commit()
        assert store.get("a") is not None


@pytest.mark.parametrize("mode", AUTOCOMMIT_MODES)
def test_an_autocommit_connection_outside_of_a_transaction_is_refused(path, store, job, mode):
    """Its caller expects no need to commit: a transaction that enqueue began would be rolled back with the job."""
    with closing(sqlite3.connect(path, **mode)) as connection:
        joined = store.joined(connection)
        with pytest.raises(InvalidInput, match=r"inside a transaction.*autocommit"):
            joined.enqueue([job(id="a")], now=NOW)
        assert not connection.in_transaction
        connection.execute("BEGIN")
        joined.enqueue([job(id="a")], now=NOW)
        connection.execute("COMMIT")
    assert store.get("a") is not None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="autocommit is new in Python 3.12")
def test_a_connection_that_is_always_inside_a_transaction_joins_it(path, store, job):
    with closing(sqlite3.connect(path, autocommit=False)) as connection:
        store.joined(connection).enqueue([job(id="a")], now=NOW)
        assert store.get("a") is None
        connection.commit()
    assert store.get("a") is not None


def test_existing_keys_and_ids_are_reported_as_existing(store, connection, job):
    store.enqueue([job(id="a", idempotency_key="k")], now=NOW)
    joined = store.joined(connection)
    connection.execute("BEGIN")
    answers = joined.enqueue([job(id="a"), job(id="b", idempotency_key="k", payload=b"[]")], now=NOW)
    connection.commit()
    assert [(answer.id, answer.existed, answer.conflict) for answer in answers] == [
        ("a", True, False),
        ("a", True, True),
    ]


def test_an_invalid_record_does_not_change_the_callers_transaction(store, connection, job):
    connection.execute("BEGIN")
    connection.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(InvalidInput):
        store.joined(connection).enqueue([job(id="a"), job(priority=10)], now=NOW)
    connection.commit()
    assert store.get("a") is None
    assert connection.execute("SELECT count(*) FROM orders").fetchone()[0] == 1


def test_the_callers_row_factory_stays(store, connection, job):
    connection.execute("BEGIN")
    store.joined(connection).enqueue([job()], now=NOW)
    connection.rollback()
    assert connection.row_factory is sqlite3.Row


def test_a_connection_to_another_file_is_refused(store, tmp_path, job):
    elsewhere = sqlite3.connect(tmp_path / "elsewhere.db")
    elsewhere.execute("CREATE TABLE t (a)")
    for connection, got in ((elsewhere, "elsewhere.db"), (sqlite3.connect(":memory:"), "in memory")):
        with pytest.raises(InvalidInput, match=got):
            store.joined(connection).enqueue([job()], now=NOW)
        connection.close()
    with pytest.raises(InvalidInput, match=r"sqlite3\.Connection.*got str"):
        store.joined("jobs.db").enqueue([job()], now=NOW)


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
    joined.close()
    assert connection.execute("SELECT 1").fetchone()[0] == 1


def test_a_locked_file_raises_store_busy(store, path, job):
    mine = sqlite3.connect(path, timeout=0.01)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        store.joined(mine).enqueue([job()], now=NOW)
    other.close()
    mine.close()


def test_the_callers_text_factory_has_no_effect(store, connection, job):
    connection.text_factory = bytes
    store.enqueue([job(id="a", idempotency_key="k")], now=NOW)
    connection.execute("BEGIN")
    [answer] = store.joined(connection).enqueue([job(idempotency_key="k")], now=NOW)
    connection.rollback()
    assert (answer.id, answer.existed) == ("a", True)
    assert connection.text_factory is bytes


@pytest.mark.parametrize("version", [0, 1], ids=["without tables", "with tables of an older version"])
@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
def test_a_store_may_be_opened_inside_the_transaction_that_it_joins(path, job, version, commits):
    """The transaction holds the lock of the file: a wait for it would end only with an error."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        if version:
            migrate(connection, load()[:version], NOW)
        connection.commit()
        connection.execute("INSERT INTO orders VALUES (1)")
        with holdfast.connect(f"sqlite:///{path}", caller_clock=True) as store:
            store.joined(connection).enqueue([job(id="a")], now=NOW)
            store.joined(connection).enqueue([job(id="b")], now=NOW)
            if commits:
                connection.commit()
            else:
                connection.rollback()
            assert [one.id for one in store.find().items] == (["a", "b"] if commits else [])
            store.enqueue([job(id="c")], now=NOW)
            reserved = store.reserve(["q"], limit=9, lease_for=1000, now=NOW)
            assert [one.job.id for one in reserved] == (["a", "b", "c"] if commits else ["c"])
        assert connection.execute("SELECT count(*) FROM orders").fetchone() == (int(commits),)


def test_the_first_enqueue_of_an_app_may_be_inside_a_transaction(path):
    app = Holdfast(f"sqlite:///{path}")

    @app.handler("order.ship")
    def ship(order: int): ...

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO orders VALUES (1)")
        answer = ship.enqueue(1, connection=connection)
        connection.commit()
    assert app.client.get(answer.id).state == "ready"
    app.close()
