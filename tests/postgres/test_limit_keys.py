"""Jobs that wait for their limit key: no interleaving of transactions leaves one behind, and none is read in vain."""

import threading

import psycopg
import pytest

import holdfast
from holdfast.clock import MINUTE, SECOND
from holdfast.drivers.postgres.arrays import pack_texts
from holdfast.drivers.postgres.settle import pack_acks, pack_settlements
from holdfast.drivers.requests import Configure, Reserve
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Release, Retry
from tests.postgres.conftest import NOW
from tests.waiting import wait_until

LEASE = 30 * SECOND
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
ONE_AT_A_TIME = QueueSettings(key_max_inflight=1)


@pytest.fixture
def store(url):
    """A store whose calls fail if they wait for a lock."""
    with holdfast.connect(f"{url}?listen=off&patience=0&options=-c%20lock_timeout%3D2s", caller_clock=True) as opened:
        yield opened


def call(session, function, *arguments):
    numbers = ", ".join(f"${number}" for number in range(1, len(arguments) + 1))
    with psycopg.RawCursor(session) as cursor:
        return cursor.execute(f"SELECT * FROM {function}({numbers})", arguments).fetchall()


def reserve(store, limit=9, *, now=NOW, **options):
    return store.do(Reserve(queues=["q"], limit=limit, lease_for=LEASE, worker="w", now=now, **options)).reservations


def reserve_ids(store, limit=9, *, now=NOW, **options):
    return [one.job.id for one in reserve(store, limit, now=now, **options)]


def fill(store, job, count, key="a", **fields):
    jobs = [job(limit_key=key, **fields) for _ in range(count)]
    store.enqueue(jobs, now=NOW)
    return [one.id for one in jobs]


def ack(session, lease):
    assert call(session, "ack", "main", NOW, *pack_acks([Ack(lease)])) == []


def release(session, lease):
    assert call(session, "settle", "main", NOW, *pack_settlements([Release(lease)], [])) == []


def hold(session, lease):
    held = Retry(lease, delay=MINUTE, hold_key=True)
    assert call(session, "settle", "main", NOW, *pack_settlements([held], [])) == []


def reap(session, _):
    assert call(session, "reap", "main", None, "w", 9, NOW) == [(1,)]


# A lease that ends while a reserve looks --------------------------------------------------------------------------


@pytest.mark.parametrize("end", [ack, release, reap])
def test_a_lease_that_ended_but_is_not_committed_leaves_no_job_behind(store, other, job, end):
    """It looked for parked jobs before there were any."""
    store.do(Configure(queue="q", settings=ONE_AT_A_TIME))
    first, second = fill(store, job, 2)
    [held] = reserve(store, 1)
    end(other, held.lease)
    assert reserve_ids(store) == []
    assert reserve_ids(store) == []
    other.commit()
    assert reserve_ids(store) == [second if end is ack else first]


@pytest.mark.parametrize("end", [ack, release, reap])
def test_a_lease_from_before_the_limit_that_ends_while_its_key_is_parked(store, other, job, end):
    """The lease was granted without a limit: no row of its key existed."""
    first, second = fill(store, job, 2)
    [held] = reserve(store, 1)
    end(other, held.lease)
    store.do(Configure(queue="q", settings=ONE_AT_A_TIME))
    assert [reserve_ids(store) for _ in range(3)] == [[], [], []]
    other.commit()
    assert reserve_ids(store) == [second if end is ack else first]


def test_a_lease_whose_end_is_committed_while_a_reserve_judges_its_key(store, other, session, job):
    """The table lock lets reads pass and stops the reserve where it locks rows of leases."""
    store.do(Configure(queue="q", settings=ONE_AT_A_TIME))
    _, second = fill(store, job, 2)
    [held] = reserve(store, 1)
    ack(other, held.lease)
    assert reserve_ids(store) == []  # parks the second job
    other.execute("LOCK TABLE jobs IN EXCLUSIVE MODE")
    found = []
    judging = threading.Thread(target=lambda: found.extend(reserve_ids(store)))
    judging.start()
    wait_until(lambda: session.execute(WAITING).fetchone()[0])
    other.commit()
    judging.join()
    assert found + reserve_ids(store) == [second]


def test_a_lease_that_ends_after_the_park_wakes_its_key(store, job):
    store.do(Configure(queue="q", settings=ONE_AT_A_TIME))
    jobs = fill(store, job, 4)
    for expected in jobs:
        [held] = reserve(store)
        assert held.job.id == expected
        for _ in range(3):
            assert reserve_ids(store) == []
        assert store.settle([Ack(held.lease)], now=NOW) == [None]
    assert reserve_ids(store) == []


def test_an_end_that_is_rolled_back_returns_no_place(store, other, job):
    store.do(Configure(queue="q", settings=ONE_AT_A_TIME))
    _, second = fill(store, job, 2)
    [held] = reserve(store, 1)
    ack(other, held.lease)
    assert reserve_ids(store) == []
    other.rollback()
    assert reserve_ids(store) == []
    assert store.settle([Ack(held.lease)], now=NOW) == [None]
    assert reserve_ids(store) == [second]


def test_a_cancel_that_is_not_committed_leaves_no_job_behind(store, other, job):
    """The cancelled job is in its lane: the place of its key is free, and a parked one gets it after the commit."""
    store.do(Configure(queue="q", settings=ONE_AT_A_TIME))
    _, second, third = fill(store, job, 3)
    [held] = reserve(store, 1)
    assert reserve_ids(store) == []
    store.settle([Ack(held.lease)], now=NOW)
    assert reserve_ids(store, types=["another"]) == []  # the second job is in its lane now
    assert call(other, "cancel", "main", NOW, pack_texts([second])) == [(second, "cancelled")]
    assert reserve_ids(store) == []
    other.commit()
    assert reserve_ids(store) == [third]


def test_a_parked_job_that_another_session_has_locked_is_unparked_later(store, other, job):
    store.do(Configure(queue="q", settings=ONE_AT_A_TIME))
    _, second = fill(store, job, 2)
    [held] = reserve(store, 1)
    assert reserve_ids(store) == []
    assert other.execute("SELECT FROM jobs WHERE id = %s FOR UPDATE", [second]).rowcount == 1
    assert store.settle([Ack(held.lease)], now=NOW) == [None]
    assert reserve_ids(store) == []
    other.rollback()
    assert reserve_ids(store) == [second]


def test_a_hold_that_is_not_committed_delays_nobody_and_applies_after_its_commit(store, other, job):
    first, second, third = fill(store, job, 3)
    [held] = reserve(store, 1)
    hold(other, held.lease)
    assert reserve_ids(store, 1) == [second]
    other.commit()
    assert reserve_ids(store, now=NOW + LEASE - 1) == []
    assert reserve_ids(store, now=NOW + MINUTE - 1) == []
    assert reserve_ids(store, now=NOW + MINUTE) == [third, second, first]  # the lease of the second has expired


def test_an_end_does_not_wait_for_a_reserve_that_has_locked_the_limits(store, other, job):
    store.do(Configure(queue="q", settings=ONE_AT_A_TIME))
    fill(store, job, 2)
    [held] = reserve(store, 1)
    call(other, "reserve", "main", NOW, pack_texts(["q"]), None, 9, LEASE, "x", b"\0" * 144, None, "share", True)
    assert store.settle([Ack(held.lease)], now=NOW) == [None]
    other.commit()
    assert len(reserve_ids(store)) == 1
