"""Rows that cannot be read among good ones: they are dead letters ``unreadable``, and nobody else notices (L9)."""

from __future__ import annotations

import psycopg

from holdfast.clock import HOUR
from holdfast.drivers.requests import AnyOpen, Purge, Requeue, Reserve
from holdfast.model.filters import JobFilter
from holdfast.model.job import State
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack, Release, Retry
from tests.postgres.conftest import NOW

VALUES = {
    "text": ("'\x01'", f"'{'x' * 300}'", "'ü b'"),
    "bigint": (f"-{2**63 - 1}", f"{2**63 - 1}", "-1"),
    "integer": (f"{2**31 - 1}", "-1"),
    "boolean": ("true",),
    "bytea": (r"'\xfffe'", "''", r"'\x5b5d'", r"'\x7b2261223a22ff227d'", f"'{'[' * 100_000}'"),
}


def damage(session, column: str, value: str, job_id: str) -> bool:
    """Write a value into a row, as a person with a shell does; return False if the table refuses it."""
    try:
        session.execute(f'UPDATE jobs SET "{column}" = {value} WHERE id = %s', [job_id])
    except psycopg.errors.IntegrityError:
        return False
    return True


def test_ready_rows_of_which_every_column_has_hostile_values(store, session, job):
    columns = session.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'jobs' "
        "AND table_schema = 'holdfast' AND column_name NOT IN ('seq', 'space') AND is_generated = 'NEVER'"
    ).fetchall()
    cases = {
        f"{column}-{number}": (column, value)
        for column, type_ in columns
        for number, value in enumerate((*VALUES[type_], "NULL"))
    }
    store.enqueue([job(id=name, meta={"case": name}) for name in cases], now=NOW)
    store.enqueue([job(meta={"case": "good"}) for _ in range(50)], now=NOW)
    damaged = {name for name, (column, value) in cases.items() if damage(session, column, value, name)}
    assert len(damaged) > 80
    assert len(list(store.find(limit=1000))) == len(cases) + 50

    ran: list[str] = []
    for _ in range(200):
        reservations = store.reserve(["q"], types=["t"], limit=5, lease_for=HOUR, now=NOW)
        ran += [str(one.job.meta.get("case")) for one in reservations]
        assert {one.job.attempts for one in reservations if one.job.meta.get("case") == "good"} <= {1}
        assert store.settle([Ack(one.lease) for one in reservations], now=NOW) == [None] * len(reservations)
        if not reservations and not store.do(AnyOpen(queues=["q"], types=["t"])):
            break
    assert ran.count("good") == 50
    assert len(set(ran)) == len(ran) - 49

    found = {job.id: job for job in store.find(limit=1000)}
    dead = [job for job in found.values() if job.state is State.DEAD]
    assert {job.dead_reason for job in dead} == {"unreadable"}
    failed = [row for row in store.ledger(limit=1000) if row.ending is Ending.FAILED]
    assert sorted(row.job_id for row in failed) == sorted(job.id for job in dead)
    buried = set()
    for one in dead:
        buried |= {column for column, _ in columns if f"{column}: wanted" in one.last_error}
    assert buried == {
        *("id", "created_at", "run_at", "requested_run_at", "timeout", "failed_at", "offset", "unique_for", "meta"),
        *("idempotency_key", "domain", "limit_key", "name", "webhook", "signature"),
    }
    ran_as_they_are = [cases[name] for name in damaged.intersection(ran) if cases[name][0] in buried]
    legal = {"NULL", "'ü b'"}  # also in those columns
    assert [case for case in ran_as_they_are if case[1] not in legal] == [("unique_for", "-1")]
    assert store.find(JobFilter(states={State.INFLIGHT})).items == []
    requeued = dict(
        zip([one.id for one in dead], store.do(Requeue(job_ids=[one.id for one in dead], now=NOW)), strict=True)
    )
    assert not any(requeued[one.id] for one in dead if "meta: " in one.last_error)
    kept = [job_id for job_id, is_requeued in requeued.items() if not is_requeued]
    assert store.do(Purge(job_ids=kept, now=NOW)) == [True] * len(kept)


def test_an_id_that_is_no_id_is_replaced_and_named(store, session, job):
    store.enqueue([job(id="a")], now=NOW)
    session.execute("UPDATE jobs SET id = 'no id ü'")
    assert store.reserve(["q"], limit=1, lease_for=HOUR, now=NOW) == []
    [dead] = store.find(JobFilter(states={State.DEAD}))
    assert dead.id.startswith("unreadable:")
    assert "got 'no id ü'" in dead.last_error
    assert store.do(Requeue(job_ids=[dead.id], now=NOW)) == [True]
    [reservation] = store.reserve(["q"], limit=1, lease_for=HOUR, now=NOW)
    assert reservation.job.id == dead.id


def test_counters_at_the_ends_of_their_ranges_fail_no_batch_of_leases(store, session, job):
    store.enqueue([job(id=name) for name in ("a", "b", "c", "good")], now=NOW)
    leases = {
        one.job.id: one.lease
        for one in store.do(Reserve(queues=["q"], limit=9, lease_for=HOUR, prefetch=True, now=NOW)).reservations
    }
    session.execute("UPDATE jobs SET released_for = 9223372036854775807 WHERE id = 'a'")
    session.execute("UPDATE jobs SET attempts = 0 WHERE id IN ('b', 'c')")
    settlements = [Release(leases["a"]), Release(leases["b"]), Retry(leases["good"])]
    assert store.settle(settlements, now=NOW) == [None, None, None]
    assert store.reap(now=NOW + HOUR) == 1
    found = {one.id: (one.state, one.attempts, one.dead_reason) for one in store.find()}
    assert found == {
        "a": (State.DEAD, 0, "released too long"),
        "b": (State.READY, 0, None),
        "c": (State.READY, 0, None),
        "good": (State.READY, 1, None),
    }
