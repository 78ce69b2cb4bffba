"""The audit of a store without a history: jobs against the ledger."""

import sqlite3

import pytest

from holdfast.clock import DAY, MINUTE
from holdfast.connect import connect
from holdfast.drivers.requests import Purge, Trim
from holdfast.model.job import JobRecord
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.spark.history.store_audit import audit_store

NOW = 1_800_000_000_000_000


@pytest.fixture
def store(tmp_path):
    with connect(f"sqlite:///{tmp_path}/jobs.db", caller_clock=True) as opened:
        yield opened


def end(store, settle, *, now, **fields):
    """Run the due job and end its lease."""
    [held] = store.reserve(["q"], limit=1, lease_for=MINUTE, worker="w", now=now)
    assert store.settle([settle(held.lease, **fields)], now=now) == [None]


def enqueue(store, job_id, *, now=NOW, **fields):
    store.enqueue([JobRecord(id=job_id, type="t", queue="q", payload=b"", created_at=now, **fields)], now=now)


def change_ledger(tmp_path, statement):
    with sqlite3.connect(tmp_path / "jobs.db") as database:
        database.execute("PRAGMA busy_timeout = 5000")
        assert database.execute(statement).rowcount


def delete_rows(tmp_path, condition):
    change_ledger(tmp_path, f"DELETE FROM holdfast_ledger WHERE {condition}")


def test_each_deleted_row_of_a_store_is_found(spark, store, tmp_path):
    for job_id in ("done", "done-after-a-retry", "half-done", "dead"):
        enqueue(store, job_id)
        if job_id in ("done-after-a-retry", "half-done"):
            end(store, Retry, now=NOW)
        end(store, *((Fail,) if job_id == "dead" else (Ack,)), now=NOW, **({"reason": "x"} if job_id == "dead" else {}))
    enqueue(store, "waiting")
    end(store, Retry, now=NOW, delay=DAY)
    enqueue(store, "whole")
    end(store, Release, now=NOW)
    end(store, Ack, now=NOW)
    assert audit_store(store, spark=spark).holds
    delete_rows(tmp_path, "job_id = 'done'")
    delete_rows(tmp_path, "job_id = 'done-after-a-retry' AND ending = 'retried'")
    delete_rows(tmp_path, "job_id = 'half-done' AND ending = 'acked'")
    delete_rows(tmp_path, "job_id IN ('dead', 'waiting')")
    certificate = audit_store(store, spark=spark)
    assert (certificate.violation_counts["missing_rows"], certificate.position) == (5, 9)
    assert sorted((each.job_id, each.check) for each in certificate.violations if each.job_id) == [
        ("dead", "records"),
        ("done", "records"),
        ("done-after-a-retry", "attempts"),
        ("half-done", "lost"),
        ("waiting", "records"),
    ]
    delete_rows(tmp_path, "true")
    certificate = audit_store(store, spark=spark)
    assert (certificate.rows, certificate.violation_counts["records"]) == (0, 6)


def test_a_trimmed_ledger_a_purge_and_a_new_job_with_an_old_id_hold(spark, store, tmp_path):
    later = NOW + 40 * DAY
    enqueue(store, "dead")
    end(store, Fail, now=NOW, reason="x")
    enqueue(store, "retried-for-long", max_attempts=9)
    end(store, Retry, now=NOW, run_at=later)
    enqueue(store, "again")
    end(store, Ack, now=NOW)
    assert store.do(Trim(now=later)).ledger == 3
    end(store, Ack, now=later)  # the second attempt
    enqueue(store, "again", now=later)
    end(store, Ack, now=later)
    enqueue(store, "purged", now=later)
    end(store, Ack, now=later)
    assert store.do(Purge(job_ids=["purged"], now=later)) == [True]
    enqueue(store, "purged", now=later + MINUTE)
    jobs = [JobRecord(id=name, type="t", queue="q", payload=b"", created_at=later, domain="d") for name in "ba"]
    store.enqueue(jobs, now=later)
    for _ in jobs:
        end(store, Ack, now=later)
    certificate = audit_store(store, spark=spark)
    assert certificate.holds, certificate.violations
    assert certificate.rows == 6
    assert (certificate.trimmed, certificate.first_position, certificate.position) == (3, 3, 9)
    delete_rows(tmp_path, "seq = 4")  # the first row that was not trimmed
    certificate = audit_store(store, spark=spark)
    assert (certificate.trimmed, certificate.violation_counts["missing_rows"]) == (3, 1)


def test_spaces_are_audited_one_by_one(spark, store):
    other = store.space("other")
    for number, space in enumerate((store, other)):
        enqueue(space, "same-id", now=NOW + number)
        end(space, Ack, now=NOW + number)
    certificate = audit_store(other, spark=spark)
    assert certificate.holds, certificate.violations
    assert (certificate.rows, certificate.jobs) == (1, 1)


def test_swapped_jobs_of_one_domain_are_found(spark, store, tmp_path):
    """The rows of two jobs that were enqueued in one call, in the other order than that of their arrival."""
    jobs = [JobRecord(id=name, type="t", queue="q", payload=b"", created_at=NOW, domain="d") for name in "ba"]
    store.enqueue(jobs, now=NOW)
    for _ in jobs:
        end(store, Ack, now=NOW)
    change_ledger(tmp_path, "UPDATE holdfast_ledger SET job_id = CASE job_id WHEN 'a' THEN 'b' ELSE 'a' END")
    certificate = audit_store(store, spark=spark)
    assert [(each.check, each.job_id) for each in certificate.violations] == [("domain_order", "b")]
