"""Seed 001: the tables of a job with its lease and its end, and what each verb writes.

A case cites the line of the seed that it proves. Holdfast splits the one table (5): jobs that are open, and jobs that
have ended. Durations are microseconds (16), no timeout is NULL and not 0 (17), ``dlq`` is called ``dead`` (30). That a
verb requires a job in flight, its token and a lease that has not ended (107, 110, 113, 117) is line 44 of seed 000.
Indexes (55, 56) are shown by the query plans in tests/sqlite and tests/postgres.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from holdfast.clock import HOUR, SECOND
from holdfast.driver import Ack, Fail, Retry, State
from holdfast.errors import InvalidInput, JobNotInflight
from holdfast.testing.drivers.harness import LEASE, START

in_sql = pytest.mark.parametrize("harness", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def execute(h) -> Iterator[Callable[[str], list[Any]]]:
    """A function that executes SQL in the database of the store; ``{}`` stands before the name of a table."""
    if h.url.startswith("sqlite"):
        connection, prefix = sqlite3.connect(h.url.removeprefix("sqlite:///"), isolation_level=None), "holdfast_"
    else:
        connection, prefix = psycopg.connect(h.url, autocommit=True), "holdfast."
    with closing(connection):
        yield lambda statement: connection.execute(statement.format(prefix)).fetchall()


# Columns ------------------------------------------------------------------------------------------------------


@in_sql
def test_a_job_has_one_row_which_moves_when_it_ends(h, execute):
    """5: single-table model. Here a job has one row, in the table of open or in the table of ended jobs."""

    def rows(table: str) -> list[str]:
        return [state for space, state in execute(f"SELECT space, state FROM {{}}{table}") if space == h.space_name]

    lease = h.reserve_new_job().lease
    assert (rows("jobs"), rows("ended")) == (["inflight"], [])
    h.must_settle(Ack(lease))
    assert (rows("jobs"), rows("ended")) == ([], ["done"])


def test_an_id_names_one_job(h):
    """8: id PRIMARY KEY."""
    job = h.enqueue_job()
    with h.assert_unchanged():
        [again] = h.enqueue(h.job(id=job.id, queue="other"))
    assert (again.id, again.existed) == (job.id, True)


def test_every_column_of_a_new_job_is_read_back(h):
    """9-19, 22, 42: type, queue, payload, run_at, timeout, created_at, max_attempts, idempotency_key."""
    job = h.enqueue_job(
        type="mail.send",
        queue="mail",
        payload=b"\x00\xff",
        run_at=START + 1,
        timeout=1,
        created_at=START - 1,
        max_attempts=7,
        idempotency_key="k",
    )
    assert h.get(job.id) == job


def test_a_new_job_is_ready_without_a_lease_an_error_or_an_end(h):
    """21-25, 63-65, 70-71, 96-100: run_at NULL, attempts 0, no error, failed_at NULL, lease and dlq fields NULL."""
    job_id = h.enqueue_job().id
    record, inspection = h.get(job_id), h.inspect(job_id)
    assert (record.state, record.run_at) == (State.READY, None)
    assert (record.attempts, record.last_error, record.failed_at) == (0, "", None)
    assert (inspection.expires_at, record.dead_reason, record.dead_at) == (None, None, None)


@pytest.mark.parametrize(
    "wrong", [{"timeout": -1}, {"attempts": -1}, {"max_attempts": 0}, {"type": ""}, {"queue": ""}, {"id": ""}]
)
def test_a_value_out_of_range_is_refused(h, wrong):
    """8-10, 17, 21-22: NOT NULL, CHECK (... >= 0). A job has at least one run, so max_attempts 0 is refused too."""
    with h.assert_unchanged(), pytest.raises(InvalidInput):
        h.enqueue(h.job(**wrong))


REFUSED_CHANGES = {
    "attempts = -1": "attempts",
    "max_attempts = -1": "max_attempts",
    "timeout = -1": "timeout",
    "state = 'lost'": "state",
    "type = NULL": "type",
    "queue = NULL": "queue",
    "payload = NULL": "payload",
    "created_at = NULL": "created_at",
    "expires_at = 1": "lease_is_whole",
    "state = 'inflight', token = 'x'": "lease_is_whole",
    "state = 'inflight'": "inflight_has_a_lease",
}


@in_sql
@pytest.mark.parametrize(("change", "constraint"), REFUSED_CHANGES.items(), ids=REFUSED_CHANGES)
def test_the_table_of_open_jobs_refuses_a_row_that_no_verb_writes(h, execute, change, constraint):
    """9-11, 17-22, 32-33, 44-49: NOT NULL, CHECK, lease_pair, inflight_requires_lease."""
    h.enqueue_job()
    with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError), match=constraint):
        execute(f"UPDATE {{}}jobs SET {change} WHERE space = '{h.space_name}'")


@in_sql
@pytest.mark.parametrize("change", ["dead_at = NULL", "dead_reason = NULL", "state = 'done'"])
def test_the_table_of_ended_jobs_refuses_a_dead_letter_without_its_time_or_reason(h, execute, change):
    """51-52: dlq_requires_metadata."""
    h.must_settle(Fail(h.reserve_new_job().lease, reason="broken"))
    with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError), match="dead_says_why_and_when"):
        execute(f"UPDATE {{}}ended SET {change} WHERE space = '{h.space_name}'")


# The runnable query -------------------------------------------------------------------------------------------


def test_a_job_is_runnable_in_its_queue_when_it_is_due_and_not_leased(h):
    """28-29, 72, 82-87: queue matches, status is ready, run_at IS NULL OR run_at <= now."""
    now = h.enqueue_job().id
    due = h.enqueue_job(run_at=h.now).id
    h.enqueue_job(run_at=h.now + 1)
    h.enqueue_job(queue="other")
    assert sorted(h.reserve_ids(9)) == [now, due]
    assert h.reserve(9) == []


def test_a_scheduled_job_that_is_reclaimed_runs_at_once(h):
    """85, 89-92, 105: status is inflight with an expired lease; run_at = NULL."""
    job_id = h.enqueue_job(run_at=h.now + HOUR).id
    h.advance(HOUR)
    assert h.reserve_ids() == [job_id]
    h.advance(LEASE)
    again = h.reserve_one()
    assert (again.job.id, again.job.run_at) == (job_id, None)
    h.must_settle(Retry(again.lease))
    assert h.get(job_id).run_at is None


# Transitions --------------------------------------------------------------------------------------------------


def test_reserve_sets_the_state_and_the_whole_lease(h):
    """35-36, 66, 73-74, 101-104: status = inflight, lease_token, lease_expires_at = now + leaseFor."""
    reservation = h.reserve_new_job()
    assert reservation.lease.token
    inspection = h.inspect(reservation.job.id)
    assert inspection.job.state is State.INFLIGHT
    assert (inspection.reserved_at, inspection.expires_at) == (h.now, h.now + LEASE)


def test_of_many_reserves_at_once_one_gets_the_job(h):
    """102: atomically pick a runnable row, including reclaiming expired inflight."""
    job_id = h.enqueue_job().id
    for _ in range(2):
        answers = h.run_concurrently(*[h.reserve] * 4)
        assert [one.job.id for answer in answers for one in answer] == [job_id]
        h.advance(LEASE)


def test_extend_moves_only_the_end_of_the_lease(h):
    """106-108: lease_expires_at = now + leaseFor."""
    reservation = h.reserve_new_job()
    before = h.inspect(reservation.job.id)
    h.advance(SECOND)
    h.must_extend(reservation.lease)
    after = h.inspect(reservation.job.id)
    assert (before.expires_at, after.expires_at) == (START + LEASE, START + SECOND + LEASE)
    assert after.job == before.job


ENDINGS = {
    "Ack": (Ack, State.DONE, {"run_at": None, "last_error": ""}),
    "Retry": (
        lambda lease: Retry(lease, error="no answer"),
        State.READY,
        {"run_at": None, "attempts": 1, "last_error": "no answer", "failed_at": START},
    ),
    "Retry later": (
        lambda lease: Retry(lease, run_at=START + HOUR),
        State.READY,
        {"run_at": START + HOUR, "attempts": 1, "failed_at": START},
    ),
    "Fail": (
        lambda lease: Fail(lease, reason="broken", error="no answer"),
        State.DEAD,
        {"dead_reason": "broken", "dead_at": START, "last_error": "no answer"},
    ),
}


@pytest.mark.parametrize(("end", "state", "fields"), ENDINGS.values(), ids=ENDINGS)
def test_a_settlement_clears_the_lease_and_writes_its_fields(h, end, state, fields):
    """30-31, 38-39, 64-65, 75-78, 109-120: clears lease fields; done, ready with RetryUpdate, dlq with reason."""
    reservation = h.reserve_new_job()
    h.must_settle(end(reservation.lease))
    inspection = h.inspect(reservation.job.id)
    assert (inspection.job.state, inspection.expires_at, inspection.fence) == (state, None, None)
    assert {name: getattr(inspection.job, name) for name in fields} == fields


# Idempotency --------------------------------------------------------------------------------------------------


def test_a_job_with_a_taken_key_stores_nothing(h):
    """41-42, 125: idempotency uniqueness."""
    first = h.enqueue_job(idempotency_key="k")
    with h.assert_unchanged():
        same, other = h.enqueue(h.job(idempotency_key="k"), h.job(idempotency_key="k", payload=b"[1]"))
    assert (same.id, same.existed, same.conflict) == (first.id, True, False)
    assert (other.id, other.existed, other.conflict) == (first.id, True, True)


def test_a_key_outlives_the_row_of_its_job(h):
    """31, 78, 111: ack may delete the row. Here a done job is kept, and its key also when the job is removed."""
    reservation = h.reserve_new_job(idempotency_key="k")
    h.must_settle(Ack(reservation.lease))
    assert h.state(reservation.job.id) is State.DONE
    assert h.purge(reservation.job.id) == [True]
    [again] = h.enqueue(h.job(idempotency_key="k"))
    assert (again.id, again.existed) == (reservation.job.id, True)


@pytest.mark.parametrize(("first", "second"), [("Ack", "Fail"), ("Fail", "Ack"), ("Retry", "Ack")])
def test_the_same_settlement_again_is_accepted_and_another_one_refused(h, first, second):
    """125: fully idempotent ack/fail. For the exact verb and token only: a stale worker is never told "success"."""
    lease = h.reserve_new_job().lease
    repeat, other = ENDINGS[first][0](lease), ENDINGS[second][0](lease)
    h.must_settle(repeat)
    with h.assert_unchanged():
        h.must_settle(repeat)
        assert isinstance(h.settle(other)[0], JobNotInflight)
