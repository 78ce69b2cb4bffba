"""A large payload is written once: no change of state copies it, and no verb leaves it behind."""

import random

import pytest

import holdfast
from holdfast.clock import HOUR
from holdfast.drivers.packing import MAX_INLINE_BYTES
from holdfast.drivers.postgres import migrations
from holdfast.drivers.postgres.copy import MIN_COPY_JOBS
from holdfast.drivers.requests import Cancel, Purge, RemoveSpace, Requeue, Reserve
from holdfast.errors import SchemaMismatch
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Fail, Release, Retry
from tests import large_payloads
from tests.large_payloads import SIZE, large_job
from tests.postgres.conftest import NOW, WITHOUT_PAYLOADS

COUNT = 40
TO_ELEVEN = f"""
{WITHOUT_PAYLOADS};
DELETE FROM migrations WHERE version = 12;
UPDATE functions SET revision = 18, checksum = 'older'
"""


def count_payloads(session) -> int:
    [(count,)] = session.execute("SELECT count(*) FROM payloads").fetchall()
    return count


def count_bytes(session) -> int:
    """Return the size of all tables: a payload that is written again takes its space again, until a vacuum."""
    tables = "SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'holdfast'::regnamespace"
    [(size,)] = session.execute(f"SELECT sum(pg_total_relation_size(oid)) FROM ({tables}) AS t").fetchall()
    return int(size)


def test_no_change_of_state_writes_a_payload_again(store, session):
    payloads = [random.Random(number).randbytes(SIZE // 2).hex().encode() for number in range(COUNT)]
    jobs = [large_job(f"job-{number}", payload=payload) for number, payload in enumerate(payloads)]
    store.enqueue(jobs, now=NOW)
    before = count_bytes(session)

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
    assert 0 < count_bytes(session) - before < COUNT * SIZE // 2
    assert {job.payload for job in store.find()} == set(payloads)


def test_every_verb_keeps_the_payload_and_leaves_none_behind(store, session):
    def check() -> None:
        assert store.engine.count_stray_payloads() == 0
        [(missing,)] = session.execute(
            "SELECT count(*) FROM (SELECT payload_seq FROM jobs UNION ALL SELECT payload_seq FROM ended) AS j "
            "WHERE payload_seq NOT IN (SELECT seq FROM payloads)"
        ).fetchall()
        assert missing == 0

    large_payloads.walk_through_verbs(store, check)
    assert count_payloads(session) > 0
    store.do(RemoveSpace(name="main", force=True, now=NOW))
    assert count_payloads(session) == 0


@pytest.mark.parametrize(("size", "is_apart"), [(MAX_INLINE_BYTES, False), (MAX_INLINE_BYTES + 1, True)])
def test_only_a_large_payload_has_a_row_of_its_own(store, session, job, size, is_apart):
    store.enqueue([job(id="a", payload=b"1" * size)], now=NOW)
    store.enqueue([job(id="b", payload=b"1" * size), job(id="c")], now=NOW)
    rows = session.execute("SELECT id, payload_seq IS NOT NULL, payload IS NULL FROM jobs ORDER BY id").fetchall()
    assert rows == [("a", is_apart, is_apart), ("b", is_apart, is_apart), ("c", False, False)]


def test_a_large_batch_with_a_large_payload_is_stored_whole(store, session, job):
    jobs = [large_job("large"), *(job(id=f"job-{number:04}") for number in range(MIN_COPY_JOBS))]
    assert not any(one.existed for one in store.enqueue(jobs, now=NOW))
    assert count_payloads(session) == 1
    assert store.get("large").payload == jobs[0].payload


def test_a_transaction_of_the_caller_that_is_rolled_back_leaves_no_payload(store, session, other):
    store.joined(other).enqueue([large_job("a")], now=NOW)
    other.rollback()
    assert count_payloads(session) == 0


def test_a_job_that_stands_in_both_tables_keeps_its_payload(store, session):
    store.enqueue([large_job("a"), large_job("b")], now=NOW)
    held = store.reserve(["q"], limit=2, lease_for=HOUR, now=NOW)
    session.execute(
        "INSERT INTO ended (seq, available_at, enqueued_at, ended_at, created_at, attempts, max_attempts, crashes, "
        "priority, cancel_requested, noted, space, id, queue, type, state, last_error, payload_seq) "
        "SELECT seq, 0, 0, 1, 0, 0, 1, 0, 0, false, false, space, id, queue, type, 'done', '', payload_seq FROM jobs"
    )
    assert store.settle([Fail(one.lease, reason="no") for one in held], now=NOW) == [None, None]
    assert {job.payload for job in store.find()} == {large_job(name).payload for name in "ab"}


def test_a_store_with_large_payloads_in_its_rows_goes_on_working(store, session, url):
    payload = large_job("old").payload
    store.enqueue([large_job("old", payload=b"1"), large_job("ended", payload=b"1")], now=NOW)
    store.do(Cancel(job_ids=["ended"], now=NOW))
    session.execute("UPDATE jobs SET payload = %s", [payload])
    session.execute("UPDATE ended SET payload = %s", [payload])
    session.execute(TO_ELEVEN)
    with holdfast.connect(url, caller_clock=True) as upgraded:
        upgraded.enqueue([large_job("new")], now=NOW)
        assert upgraded.do(Requeue(job_ids=["ended"], now=NOW)) == [True]
        held = upgraded.do(Reserve(queues=["q"], limit=3, lease_for=HOUR, max_bytes=4 * SIZE, now=NOW)).reservations
        assert [one.job.payload for one in held] == [payload, large_job("new").payload, payload]
        upgraded.settle([Fail(one.lease, reason="no") for one in held], now=NOW)
        assert upgraded.do(Requeue(job_ids=["old", "new", "ended"], now=NOW)) == [True] * 3
        held = upgraded.reserve(["q"], limit=3, lease_for=HOUR, now=NOW)
        upgraded.settle([Ack(one.lease) for one in held], now=NOW)
        assert {(job.id, job.payload) for job in upgraded.find()} == {
            ("new", large_job("new").payload),
            ("old", payload),
            ("ended", payload),
        }
        assert upgraded.do(Purge(job_ids=["old", "new", "ended"], now=NOW)) == [True] * 3
        assert count_payloads(session) == 0


def test_older_code_refuses_the_store(store, url, monkeypatch):
    older = migrations.migrations()[:11]
    monkeypatch.setattr(migrations, "migrations", lambda: older)
    with pytest.raises(SchemaMismatch, match="needs 12: a newer Holdfast created it"):
        holdfast.connect(url)


@pytest.mark.parametrize("max_bytes", [None, 10])
def test_a_job_whose_payload_was_removed_is_a_dead_letter(store, session, job, max_bytes):
    store.enqueue([large_job("a"), job(id="b")], now=NOW)
    session.execute("DELETE FROM payloads")
    assert store.get("a").last_error.startswith("unreadable: payload: wanted")
    assert [one.id for one in store.find()] == ["a", "b"]
    held = store.do(Reserve(queues=["q"], limit=2, lease_for=HOUR, max_bytes=max_bytes, now=NOW)).reservations
    assert [one.job.id for one in held] == ["b"]
    assert store.get("a").state is State.DEAD
    assert store.get("a").dead_reason == "unreadable"
    assert store.do(Requeue(job_ids=["a"], now=NOW)) == [False]
    assert store.do(Purge(job_ids=["a"], now=NOW)) == [True]


def test_payloads_without_a_job_are_counted(store, session):
    store.enqueue([large_job("a"), large_job("b")], now=NOW)
    session.execute("DELETE FROM jobs WHERE id = 'a'")
    assert store.engine.count_stray_payloads() == 1
