"""Rows that another session has locked: no reserve, reap, trim or passing of a turn waits for them."""

import pytest

import holdfast
from holdfast.clock import DAY, SECOND
from holdfast.drivers.requests import Reap, Reserve, Trim, Write
from holdfast.model.isolation import Isolation
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack
from tests.postgres.conftest import NOW

LEASE = 30 * SECOND
LATER = NOW + LEASE


@pytest.fixture
def store(url):
    """A store whose calls fail if they wait for a lock."""
    with holdfast.connect(f"{url}?listen=off&patience=0&options=-c%20lock_timeout%3D2s", caller_clock=True) as opened:
        yield opened


def lock_jobs(other, *jobs):
    ids = [job.id for job in jobs]
    assert other.execute("SELECT FROM jobs WHERE id = ANY (%s) FOR UPDATE", [ids]).rowcount == len(ids)


def isolate_jobs(other, *jobs):
    other.execute("UPDATE jobs SET crashes = 1 WHERE id = ANY (%s)", [[job.id for job in jobs]])
    other.commit()


def reserve_ids(store, limit, *, isolation=Isolation.SHARE, now=NOW):
    reserved = store.do(
        Reserve(queues=["q"], limit=limit, lease_for=LEASE, worker="w", isolation=isolation, now=now)
    ).reservations
    return [reservation.job.id for reservation in reserved]


# Reserve --------------------------------------------------------------------------------------------------------


def test_a_reserve_takes_the_jobs_behind_a_locked_one(store, other, job):
    first, second, third = jobs = [job() for _ in range(3)]
    store.enqueue(jobs, now=NOW)
    lock_jobs(other, first)
    assert reserve_ids(store, 2) == [second.id, third.id]


def test_a_reserve_from_several_lanes_takes_jobs_of_another_lane_instead_of_locked_ones(store, other, job):
    locked, second, third = jobs = [job(type="x"), job(type="y"), job(type="y")]
    store.enqueue(jobs, now=NOW)
    lock_jobs(other, locked)
    assert reserve_ids(store, 2) == [second.id, third.id]


def test_a_job_behind_an_isolated_one_is_not_taken_instead_of_a_locked_one(store, other, job):
    locked, second, isolated, behind = job(type="x"), job(type="y"), job(type="z"), job(type="y")
    store.enqueue([locked, second, isolated, behind], now=NOW)
    isolate_jobs(other, isolated)
    lock_jobs(other, locked)
    assert reserve_ids(store, 2, isolation=Isolation.STOP) == [second.id]


def test_a_reserve_takes_the_isolated_job_behind_a_locked_one(store, other, job):
    first, second = jobs = [job() for _ in range(2)]
    store.enqueue(jobs, now=NOW)
    isolate_jobs(other, *jobs)
    lock_jobs(other, first)
    assert reserve_ids(store, 9, isolation=Isolation.ALONE) == [second.id]


def test_a_domain_whose_turn_another_session_is_giving_does_not_delay_other_jobs(store, other, job):
    head, without_domain = job(domain="d"), job()
    store.enqueue([head, without_domain], now=NOW)
    assert other.execute("SELECT FROM arrivals FOR UPDATE").rowcount == 1
    assert reserve_ids(store, 9) == [without_domain.id]
    other.rollback()
    assert reserve_ids(store, 9) == [head.id]


def test_an_ack_does_not_wait_for_the_next_job_of_its_domain_and_its_turn_is_not_lost(store, other, job):
    """The session that holds the next job may end it and pass the turn, or roll back: here it rolls back."""
    head, following = job(domain="d"), job(domain="d")
    store.enqueue([head, following], now=NOW)
    [held] = store.reserve(["q"], limit=1, lease_for=LEASE, now=NOW)
    lock_jobs(other, following)
    assert store.settle([Ack(held.lease)], now=NOW) == [None]
    assert reserve_ids(store, 9) == []
    other.rollback()
    assert reserve_ids(store, 9) == [following.id]


# Reap and trim --------------------------------------------------------------------------------------------------


def test_a_reap_ends_the_leases_beside_a_locked_one(store, other, job):
    jobs = [job() for _ in range(3)]
    store.enqueue(jobs, now=NOW)
    reserve_ids(store, 3)
    lock_jobs(other, jobs[0])
    assert store.do(Reap(worker="w", limit=1, now=NOW)).count == 1
    assert store.reap(now=LATER) == 1
    other.rollback()
    assert store.reap(now=LATER) == 1


def test_a_reap_does_not_wait_for_a_locked_lease_that_was_extended(store, other, job):
    first, second = jobs = [job() for _ in range(2)]
    store.enqueue(jobs, now=NOW)
    [held, _] = store.reserve(["q"], limit=2, lease_for=LEASE, now=NOW)
    store.extend([held.lease], lease_for=2 * LEASE, now=NOW)
    lock_jobs(other, first)
    assert store.reap(now=LATER) == 1
    assert store.get(second.id).crashes == 1


@pytest.mark.parametrize(("table", "count"), [("ended", "jobs"), ("dedupe", "dedupe"), ("registry", "registry")])
def test_a_trim_removes_the_rows_beside_a_locked_one(store, other, job, table, count):
    store.enqueue([job(idempotency_key=f"k{number}") for number in range(2)], now=NOW)
    held = store.reserve(["q"], limit=2, lease_for=LEASE, now=NOW)
    store.settle([Ack(one.lease) for one in held], now=NOW)
    store.do(Write(changes=[Change(kind="kind", key=f"k{number}", value=b"1", ttl=1) for number in range(2)], now=NOW))
    assert other.execute(f"SELECT FROM {table} LIMIT 1 FOR UPDATE").rowcount == 1
    removed = store.do(Trim(ended_for=DAY, ledger_for=DAY, now=NOW + 3 * DAY))
    assert getattr(removed, count) == 1
