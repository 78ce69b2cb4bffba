"""A large payload is written once: no change of state copies it, and no verb leaves it behind."""

import sqlite3
from contextlib import closing

import pytest

import holdfast
from holdfast.clock import HOUR
from holdfast.drivers.packing import MAX_INLINE_BYTES
from holdfast.drivers.requests import Cancel, Purge, RemoveSpace, Requeue, Reserve
from holdfast.drivers.sqlite.migrations import load, migrate
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Fail, Release, Retry
from tests import large_payloads
from tests.large_payloads import SIZE, large_job
from tests.sqlite.conftest import NOW

COUNT = 10
BEFORE_PAYLOADS = 8  # migrations


@pytest.fixture
def shell(path, store):
    """A connection of somebody else to the file of ``store``."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def test_no_change_of_state_writes_a_payload_again(store, path, shell):
    store.enqueue([large_job(f"job-{number}") for number in range(COUNT)], now=NOW)
    shell.execute("BEGIN")
    shell.execute("SELECT count(*) FROM holdfast_jobs").fetchone()  # while this is open, the log only grows
    log = path.with_name(f"{path.name}-wal")
    before = log.stat().st_size

    def reserve(now):
        return [one.lease for one in store.reserve(["q"], limit=COUNT, lease_for=HOUR, now=now)]

    store.settle([Retry(lease) for lease in reserve(NOW)], now=NOW)
    store.settle([Release(lease) for lease in reserve(NOW)], now=NOW)
    reserve(NOW)
    [*acked, failed] = reserve(NOW + 2 * HOUR)  # after all leases have expired
    store.extend([*acked, failed], lease_for=HOUR, now=NOW + 2 * HOUR)
    store.settle([*map(Ack, acked), Fail(failed, reason="no")], now=NOW + 2 * HOUR)
    store.do(Requeue(job_ids=[failed.job_id], now=NOW))
    store.do(Cancel(job_ids=[failed.job_id], now=NOW))
    written = log.stat().st_size - before
    assert 0 < written < COUNT * SIZE // 2
    assert {job.payload for job in store.find()} == {large_job(f"job-{number}").payload for number in range(COUNT)}


def test_every_verb_keeps_the_payload_and_leaves_none_behind(store, path, shell):
    def check() -> None:
        assert store.engine.count_stray_payloads() == 0
        [(missing,)] = shell.execute(
            "SELECT count(*) FROM (SELECT payload_seq FROM holdfast_jobs UNION ALL "
            "SELECT payload_seq FROM holdfast_ended) WHERE payload_seq NOT IN (SELECT seq FROM holdfast_payloads)"
        )
        assert missing == 0

    large_payloads.walk_through_verbs(store, check)
    assert shell.execute("SELECT count(*) FROM holdfast_payloads").fetchone() != (0,)
    store.do(RemoveSpace(name="main", force=True, now=NOW))
    assert shell.execute("SELECT count(*) FROM holdfast_payloads").fetchone() == (0,)


@pytest.mark.parametrize(("size", "is_apart"), [(MAX_INLINE_BYTES, False), (MAX_INLINE_BYTES + 1, True)])
def test_only_a_large_payload_has_a_row_of_its_own(store, shell, job, size, is_apart):
    store.enqueue([job(id="a", payload=b"1" * size)], now=NOW)
    store.enqueue([job(id="b", payload=b"1" * size), job(id="c")], now=NOW)
    rows = shell.execute(
        "SELECT id, payload_seq IS NOT NULL, length(payload) FROM holdfast_jobs ORDER BY id"
    ).fetchall()
    kept = 0 if is_apart else size
    assert rows == [("a", is_apart, kept), ("b", is_apart, kept), ("c", 0, 2)]


def test_a_transaction_of_the_caller_that_is_rolled_back_leaves_no_payload(store, shell):
    shell.execute("BEGIN IMMEDIATE")
    store.joined(shell).enqueue([large_job("a")], now=NOW)
    shell.execute("ROLLBACK")
    assert shell.execute("SELECT count(*) FROM holdfast_payloads").fetchone() == (0,)


def test_a_file_with_large_payloads_in_its_rows_goes_on_working(path):
    payload = b'"' + b"x" * SIZE + b'"'
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, load()[:BEFORE_PAYLOADS], NOW)
        connection.execute(
            "INSERT INTO holdfast_jobs (space, id, queue, type, priority, available_at, enqueued_at, max_attempts, "
            "created_at, payload) VALUES ('main', 'old', 'q', 't', 0, ?, ?, 3, ?, ?)",
            (NOW, NOW, NOW, payload),
        )
        connection.execute("INSERT INTO holdfast_lanes VALUES ('main', 'q', 't', 0)")
    with holdfast.connect(f"sqlite:///{path}", caller_clock=True) as store:
        store.enqueue([large_job("new")], now=NOW)
        held = store.do(Reserve(queues=["q"], limit=2, lease_for=HOUR, max_bytes=3 * SIZE, now=NOW)).reservations
        assert [one.job.payload for one in held] == [payload, large_job("new").payload]
        store.settle([Fail(one.lease, reason="no") for one in held], now=NOW)
        assert store.do(Requeue(job_ids=["old", "new"], now=NOW)) == [True, True]
        held = store.reserve(["q"], limit=2, lease_for=HOUR, now=NOW)
        store.settle([Ack(one.lease) for one in held], now=NOW)
        assert [(job.id, job.payload) for job in store.find()] == [("new", large_job("new").payload), ("old", payload)]
        assert store.do(Purge(job_ids=["old", "new"], now=NOW)) == [True, True]
        assert store.engine.count_stray_payloads() == 0


@pytest.mark.parametrize("max_bytes", [None, 10])
def test_a_job_whose_payload_was_removed_is_a_dead_letter(store, shell, job, max_bytes):
    store.enqueue([large_job("a"), job(id="b")], now=NOW)
    shell.execute("DELETE FROM holdfast_payloads")
    assert store.get("a").last_error.startswith("unreadable: payload: wanted")
    held = store.do(Reserve(queues=["q"], limit=2, lease_for=HOUR, max_bytes=max_bytes, now=NOW)).reservations
    assert [one.job.id for one in held] == ["b"]
    assert store.get("a").state is State.DEAD
    assert store.get("a").dead_reason == "unreadable"
    assert store.do(Requeue(job_ids=["a"], now=NOW)) == [False]
    assert store.do(Purge(job_ids=["a"], now=NOW)) == [True]
