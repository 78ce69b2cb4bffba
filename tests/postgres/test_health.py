"""What keeps the tables small and the hot ones quick, over weeks."""

import time

import psycopg
import pytest

import holdfast
import holdfast.driver
from holdfast.clock import DAY, SECOND
from holdfast.model.lease import Note
from holdfast.model.settlement import Ack, Retry
from tests.postgres.conftest import NOW


def updates_of_jobs(session, wanted):
    """How many updates there were, and how many of them HOT, once a session that has ended has told of ``wanted``."""
    query = (
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = 'holdfast' AND relname = 'jobs'"
    )
    deadline = time.monotonic() + 30
    while (found := session.execute(query).fetchone())[0] < wanted and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def test_a_heartbeat_is_a_hot_update(server, job):
    """On a server of its own: pages are pruned late while transactions run in any of its databases."""
    url = server.create_database("hot")
    store = holdfast.connect(f"{url}?connections=1&listen=off", caller_clock=True)
    store.enqueue([job() for _ in range(20)], now=NOW)
    held = store.reserve(["q"], limit=20, lease_for=30 * SECOND, now=NOW)
    for beat in range(1, 11):
        answers = store.extend(
            [one.lease for one in held],
            lease_for=30 * SECOND,
            notes={held[0].job.id: Note(progress=b"%d" % beat)},
            now=NOW + beat * 10 * SECOND,
        )
        assert all(isinstance(answer, holdfast.driver.Lease) for answer in answers)
    store.close()
    with psycopg.connect(url, autocommit=True) as session:
        updates, hot = updates_of_jobs(session, 220)
    assert updates == 220  # as the jobs were leased, and ten heartbeats each
    assert hot >= 180  # a page may be full, and is pruned by the next


def test_a_lease_that_was_extended_is_not_reaped_before_its_new_end(store, job):
    store.enqueue([job()], now=NOW)
    [held] = store.reserve(["q"], limit=1, lease_for=30, now=NOW)
    store.extend([held.lease], lease_for=100, now=NOW + 10)
    for now, ended in ((NOW + 30, 0), (NOW + 109, 0), (NOW + 110, 1)):
        assert store.reap(now=now) == ended


def test_a_lease_that_was_shortened_is_reaped_at_its_new_end(store, job):
    store.enqueue([job()], now=NOW)
    [held] = store.reserve(["q"], limit=1, lease_for=1000, now=NOW)
    store.extend([held.lease], lease_for=5, now=NOW + 10)
    assert store.reap(now=NOW + 14) == 0
    assert store.reap(now=NOW + 15) == 1


def test_an_old_snapshot_held_open_stops_nothing(url, store, job):
    """Dead rows pile up behind it; every job still passes, and in order."""
    with psycopg.connect(url) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM holdfast.jobs")
        passed = []
        for turn in range(30):
            batch = [job(id=f"{turn:03}-{number:03}") for number in range(100)]
            store.enqueue(batch, now=NOW + turn)
            held = store.reserve(["q"], limit=100, lease_for=SECOND, now=NOW + turn)
            passed += [one.job.id for one in held]
            assert store.settle([Ack(one.lease) for one in held], now=NOW + turn) == [None] * 100
        old.rollback()
    assert len(passed) == 3000
    assert passed == sorted(passed)


def test_retention_goes_in_bounded_steps(store, job):
    store.enqueue([job() for _ in range(25)], now=NOW)
    held = store.reserve(["q"], limit=25, lease_for=SECOND, now=NOW)
    store.settle([Ack(one.lease) for one in held], now=NOW)
    later = NOW + 40 * DAY
    steps = [store.trim(limit=10, now=later) for _ in range(4)]
    assert [(step.jobs, step.ledger, step.more) for step in steps] == [
        (10, 10, True),
        (10, 10, True),
        (5, 5, False),
        (0, 0, False),
    ]


def test_every_constraint_of_a_row_holds(store, session, job):
    """The tables themselves refuse what no verb would write."""
    store.enqueue([job(id="a"), job(id="b")], now=NOW)
    [held] = store.reserve(["q"], limit=1, lease_for=SECOND, now=NOW)
    for change, constraint in (
        ("state = 'inflight'", "inflight_has_a_lease"),
        ("state = 'inflight', token = 'x'", "lease_is_whole"),
        ("state = 'lost'", "jobs_state_check"),
        ("priority = 10", "jobs_priority_check"),
        ("attempts = -1", "jobs_attempts_check"),
        ("timeout = 0", "jobs_timeout_check"),
    ):
        with pytest.raises(psycopg.errors.CheckViolation, match=constraint):
            session.execute(f"UPDATE jobs SET {change} WHERE id = 'b'")
    with pytest.raises(psycopg.errors.CheckViolation, match="inflight_has_a_turn"):
        session.execute("UPDATE jobs SET turn = false WHERE id = 'a'")
    store.settle([Retry(held.lease)], now=NOW)
    [held] = store.reserve(["q"], limit=1, lease_for=SECOND, now=NOW)
    store.settle([Ack(held.lease)], now=NOW)
    with pytest.raises(psycopg.errors.CheckViolation, match="dead_says_why_and_when"):
        session.execute("UPDATE ended SET state = 'dead'")
