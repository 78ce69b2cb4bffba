"""Properties that keep the tables small and the hot table fast over weeks."""

import time

import psycopg
import pytest

import holdfast
import holdfast.driver
from holdfast.clock import DAY, SECOND
from holdfast.drivers.requests import Extend, Trim
from holdfast.model.lease import Note
from holdfast.model.settlement import Ack
from tests.postgres.conftest import NOW


def read_update_counts(session, wanted):
    """Return the updates of ``jobs`` and the HOT ones among them, once the statistics have at least ``wanted``."""
    query = (
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = 'holdfast' AND relname = 'jobs'"
    )
    deadline = time.monotonic() + 30
    while (counts := session.execute(query).fetchone())[0] < wanted and time.monotonic() < deadline:
        time.sleep(0.01)
    return counts


def test_a_heartbeat_is_a_hot_update(server, job):
    """Uses its own server: transactions in other databases of a server delay the pruning of pages."""
    url = server.create_database("hot")
    store = holdfast.connect(f"{url}?connections=1&listen=off", caller_clock=True)
    store.enqueue([job() for _ in range(20)], now=NOW)
    held = store.reserve(["q"], limit=20, lease_for=30 * SECOND, now=NOW)
    for beat in range(1, 11):
        answers = store.do(
            Extend(
                leases=[one.lease for one in held],
                lease_for=30 * SECOND,
                notes={held[0].job.id: Note(progress=b"%d" % beat)},
                now=NOW + beat * 10 * SECOND,
            )
        )
        assert all(isinstance(answer, holdfast.driver.Lease) for answer in answers)
    store.close()
    with psycopg.connect(url, autocommit=True) as session:
        updates, hot = read_update_counts(session, 220)
    assert updates == 220  # one lease and ten heartbeats for each job
    assert hot >= 180  # an update on a full page is not HOT; the next one prunes the page


def test_an_extended_lease_is_not_reaped_before_its_new_end(store, job):
    store.enqueue([job()], now=NOW)
    [held] = store.reserve(["q"], limit=1, lease_for=30, now=NOW)
    store.extend([held.lease], lease_for=100, now=NOW + 10)
    for now, ended in ((NOW + 30, 0), (NOW + 109, 0), (NOW + 110, 1)):
        assert store.reap(now=now) == ended


def test_a_shortened_lease_is_reaped_at_its_new_end(store, job):
    store.enqueue([job()], now=NOW)
    [held] = store.reserve(["q"], limit=1, lease_for=1000, now=NOW)
    store.extend([held.lease], lease_for=5, now=NOW + 10)
    assert store.reap(now=NOW + 14) == 0
    assert store.reap(now=NOW + 15) == 1


def test_an_old_open_snapshot_does_not_stop_the_queue(url, store, job):
    """Vacuum cannot remove dead rows meanwhile; every job is still reserved, in order."""
    with psycopg.connect(url) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM holdfast.jobs")
        reserved = []
        for turn in range(30):
            batch = [job(id=f"{turn:03}-{number:03}") for number in range(100)]
            store.enqueue(batch, now=NOW + turn)
            held = store.reserve(["q"], limit=100, lease_for=SECOND, now=NOW + turn)
            reserved += [one.job.id for one in held]
            assert store.settle([Ack(one.lease) for one in held], now=NOW + turn) == [None] * 100
        old.rollback()
    assert len(reserved) == 3000
    assert reserved == sorted(reserved)


def test_each_trim_removes_at_most_its_limit(store, job):
    store.enqueue([job() for _ in range(25)], now=NOW)
    held = store.reserve(["q"], limit=25, lease_for=SECOND, now=NOW)
    store.settle([Ack(one.lease) for one in held], now=NOW)
    later = NOW + 40 * DAY
    steps = [store.do(Trim(limit=10, now=later)) for _ in range(4)]
    assert [(step.jobs, step.ledger, step.more) for step in steps] == [
        (10, 10, True),
        (10, 10, True),
        (5, 5, False),
        (0, 0, False),
    ]


def test_the_tables_refuse_rows_that_no_verb_writes(store, session, job):
    store.enqueue([job(id="a"), job(id="b")], now=NOW)
    store.reserve(["q"], limit=1, lease_for=SECOND, now=NOW)
    for change, constraint in (
        ("fence = 1 WHERE id = 'b'", "lease_is_whole"),
        ("priority = 10", "jobs_priority_check"),
        ("turn = false WHERE id = 'a'", "inflight_has_a_turn"),
    ):
        with pytest.raises(psycopg.errors.CheckViolation, match=constraint):
            session.execute(f"UPDATE jobs SET {change}")
