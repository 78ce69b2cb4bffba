"""Concurrent writes share commits, and a write that fails does not affect the others."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import holdfast
from holdfast.drivers.capabilities import Durability
from holdfast.drivers.sqlite.database import _Write
from holdfast.errors import StoreBusy, StoreUnavailable
from holdfast.model.settlement import Ack
from tests.sqlite.conftest import NOW


def test_writes_that_wait_for_a_commit_share_the_next_commit(store, job):
    """The first write stays inside its transaction until all other writes are queued."""
    database = store.engine._database
    entered, go_on = threading.Event(), threading.Event()
    commits = []

    def slow(connection):
        connection.set_trace_callback(lambda statement: commits.append(statement) if statement == "COMMIT" else None)
        entered.set()
        assert go_on.wait(30)

    with ThreadPoolExecutor(41) as pool:
        first = pool.submit(database.write, slow)
        assert entered.wait(30)
        others = [pool.submit(store.enqueue, [job()], now=NOW) for _ in range(40)]
        while len(database._queue) < 40:
            pass
        go_on.set()
        first.result(30)
        answers = [other.result(30) for other in others]
    assert [answer.existed for [answer] in answers] == [False] * 40
    assert commits == ["COMMIT", "COMMIT"]
    assert store.counts(now=NOW)[0].ready == 40


def test_a_write_that_fails_rolls_back_only_itself(store, job):
    database = store.engine._database
    entered, go_on = threading.Event(), threading.Event()

    def slow(_connection):
        entered.set()
        assert go_on.wait(30)

    def half_done(connection):
        connection.execute("DELETE FROM holdfast_jobs")
        raise RuntimeError("half way")

    store.enqueue([job()], now=NOW)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(database.write, slow)
        assert entered.wait(30)
        before = pool.submit(store.enqueue, [job()], now=NOW)
        while len(database._queue) < 1:
            pass
        broken = pool.submit(database.write, half_done)
        while len(database._queue) < 2:
            pass
        after = pool.submit(store.enqueue, [job()], now=NOW)
        while len(database._queue) < 3:
            pass
        go_on.set()
        first.result(30), before.result(30), after.result(30)
        with pytest.raises(RuntimeError, match="half way"):
            broken.result(30)
    assert store.counts(now=NOW)[0].ready == 3


def test_a_single_write_that_fails_changes_nothing(store, job):
    store.enqueue([job()], now=NOW)

    def half_done(connection):
        connection.execute("DELETE FROM holdfast_jobs")
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError):
        store.engine._database.write(half_done)
    assert store.counts(now=NOW)[0].ready == 1


def test_an_interrupt_of_the_writing_thread_loses_no_write_of_another_thread(store, job):
    """A Ctrl-C in the thread that runs the group, with writes of other threads before and after its own write."""
    database = store.engine._database
    ran = []

    def interrupt(_connection):
        raise KeyboardInterrupt

    before, own, behind = (
        _Write(lambda _: ran.append("before")),
        _Write(interrupt),
        _Write(lambda _: ran.append("behind")),
    )
    database._queue.extend([before, own, behind])
    with database._write_lock, pytest.raises(KeyboardInterrupt):
        database._run_group(own)
    assert not before.is_finished
    assert not database._writer.in_transaction
    store.enqueue([job()], now=NOW)  # the next thread runs the writes that are left
    assert before.is_finished
    assert behind.is_finished
    assert ran == ["before", "before", "behind"]  # rolled back once, then committed


def test_a_store_locked_by_another_process_raises_store_busy_and_changes_nothing(path, job):
    store = holdfast.connect(f"sqlite:///{path}?busy_for=0.05", caller_clock=True)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match="nothing was changed"):
        store.enqueue([job(id="late")], now=NOW)
    assert store.get("late") is None
    other.execute("ROLLBACK")
    other.close()
    [answer] = store.enqueue([job(id="late")], now=NOW)
    assert not answer.existed
    store.close()


def test_readers_do_not_wait_for_a_writer(store, path, job):
    store.enqueue([job(id="there")], now=NOW)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM holdfast_jobs")
    found = store.get("there")
    assert found is not None
    assert store.counts(now=NOW)[0].ready == 1
    assert store.ledger().items == []
    other.execute("ROLLBACK")
    other.close()


def test_a_full_disk_is_reported_and_loses_nothing(store, job):
    """A limit on pages makes SQLite raise the same SQLITE_FULL as a full disk."""
    store.enqueue([job(id=f"first-{n}") for n in range(10)], now=NOW)
    connection = store.engine._database._writer
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StoreUnavailable, match="full"):
        store.enqueue([job(payload=b"x" * 100_000) for _ in range(10)], now=NOW)
    assert store.counts(now=NOW)[0].ready == 10
    connection.execute("PRAGMA max_page_count=1000000")
    store.enqueue([job(payload=b"x" * 100_000) for _ in range(10)], now=NOW)
    assert store.counts(now=NOW)[0].ready == 20


def test_a_disk_below_min_free_bytes_refuses_new_jobs_and_accepts_acks(path, job):
    store = holdfast.connect(f"sqlite:///{path}", caller_clock=True)
    store.enqueue([job()], now=NOW)
    [reservation] = store.reserve(["q"], limit=1, lease_for=1000, now=NOW)
    store.close()
    nearly_full = holdfast.connect(f"sqlite:///{path}?min_free_bytes={1 << 60}", caller_clock=True)
    with pytest.raises(holdfast.HoldfastError, match=r"free disk.*min_free_bytes") as refused:
        nearly_full.enqueue([job()], now=NOW)
    assert refused.value.floor == 1 << 60  # type: ignore[attr-defined]
    assert nearly_full.settle([Ack(reservation.lease)], now=NOW) == [None]
    nearly_full.close()


def test_the_connection_has_the_durability_of_the_url(path, store, tmp_path):
    connection = store.engine._database._connect()
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    connection.close()
    assert store.capabilities.durability is Durability.FSYNC
    quicker = holdfast.connect(f"sqlite:///{tmp_path}/quick.db?synchronous=normal")
    assert quicker.capabilities.durability is Durability.PROCESS
    quicker.close()


def test_more_writes_than_one_group_holds_are_all_answered(store, job, monkeypatch):
    monkeypatch.setattr("holdfast.drivers.sqlite.database.MAX_GROUP_WRITES", 3)
    database = store.engine._database
    entered, go_on = threading.Event(), threading.Event()

    def slow(_connection):
        entered.set()
        assert go_on.wait(30)

    with ThreadPoolExecutor(41) as pool:
        first = pool.submit(database.write, slow)
        assert entered.wait(30)
        others = [pool.submit(store.enqueue, [job()], now=NOW) for _ in range(40)]
        while len(database._queue) < 40:
            pass
        go_on.set()
        first.result(30)
        assert [other.result(30)[0].existed for other in others] == [False] * 40
    assert store.counts(now=NOW)[0].ready == 40


def test_an_error_of_sqlite_is_the_cause_of_a_store_error(store):
    with pytest.raises(StoreUnavailable) as raised:
        store.engine._database.write(lambda connection: connection.execute("SELECT * FROM nowhere"))
    assert isinstance(raised.value.__cause__, sqlite3.OperationalError)
