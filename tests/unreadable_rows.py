"""One row that cannot be read among good ones, in any SQL store: what every verb must do with it (L9)."""

from __future__ import annotations

import msgspec

from holdfast.clock import HOUR, SECOND
from holdfast.drivers.requests import (
    Counts,
    Domains,
    Find,
    Inspect,
    LedgerTail,
    Purge,
    ReadTuples,
    Requeue,
    Reserve,
    Trim,
)
from holdfast.drivers.store import Store
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack, Fail, Release, Retry

NOW = 1_800_000_000 * SECOND
GOOD = {f"good-{n}": [1] for n in range(5)}
REPLACED = ("id", "last_error", "failed_at")  # a dead letter gets new ones, so that it can be requeued


def fill(store: Store) -> None:
    """Store good jobs, and one named ``bad``, which is the first one in its lane."""
    store.enqueue([_job("bad")], now=NOW - SECOND)
    store.enqueue([_job(name, domain="d" if name == "good-4" else None) for name in GOOD], now=NOW)


def _job(name: str, **fields: object) -> JobRecord:
    return JobRecord(id=f"id-{name}", name=name, type="t", queue="q", payload=b"{}", created_at=NOW, **fields)


def drain(store: Store) -> dict[str, list[int]]:
    """Reserve and ack until nothing is left; return the attempts of each run by the name of its job."""
    runs: dict[str, list[int]] = {}
    for _ in range(5):
        reservations = store.reserve(["q"], limit=2, lease_for=HOUR, now=NOW)
        for one in reservations:
            runs.setdefault(str(one.job.name), []).append(one.job.attempts)
        assert store.settle([Ack(one.lease) for one in reservations], now=NOW) == [None] * len(reservations)
    return runs


def find_all(store: Store, states: set[State] | None, *, newest: bool) -> list[JobRecord]:
    """Return the jobs of all pages."""
    found, after = [], None
    for _ in range(20):
        page = store.do(Find(where=JobFilter(states=states), limit=1, after=after, newest=newest))
        found += page.items
        after = page.cursor
        if after is None:
            return found
    raise AssertionError("the pages have no end")


def look_at_everything(store: Store) -> list[JobRecord]:
    """Call every verb that reads: each answers, with values that callers can pass on. Return all jobs."""
    answers = [
        store.counts(now=NOW),
        store.do(Counts(now=NOW, estimate=True)),
        store.ledger().items,
        store.do(LedgerTail()).items,
    ]
    answers += [store.do(Domains(now=NOW)).items]
    store.do(ReadTuples(limit=100))
    for job_id in ("id-bad", "id-good-0"):
        answers += [store.get(job_id), store.do(Inspect(job_ids=[job_id])).get(job_id)]
    jobs = find_all(store, None, newest=True)
    assert len({job.id for job in jobs}) == len(jobs)
    assert len(jobs) == len(GOOD) + 1, [job.id for job in jobs]
    assert sorted(job.id for job in find_all(store, None, newest=False)) == sorted(job.id for job in jobs)
    for state in {job.state for job in jobs}:
        wanted = [job.id for job in jobs if job.state is state]
        assert [job.id for job in find_all(store, {state}, newest=True)] == wanted
    msgspec.json.encode([*answers, jobs, store.do(Inspect(job_ids=[job.id for job in jobs]))], enc_hook=vars)
    return jobs


def check_ready_row(store: Store, column: str) -> None:
    """``fill`` has filled the store, and the column of the row ``bad`` has a value that nobody expected."""
    look_at_everything(store)
    runs = drain(store)
    look_at_everything(store)
    ran = runs.pop("bad", None)
    assert runs == GOOD or (column == "name" and len(runs) == len(GOOD) + 1)
    ended = [row for row in store.ledger().items if row.ending is not Ending.ACKED]
    dead = store.find(JobFilter(states={State.DEAD})).items
    if not dead:  # a value like any other, or one that hides the row from every reserve
        assert ended == []
        return
    assert ran is None
    assert [one.dead_reason for one in dead] == ["unreadable"]
    assert f"{column.removesuffix('_seq')}: wanted" in dead[0].last_error
    assert [(row.ending, row.state, row.job_id) for row in ended] == [(Ending.FAILED, State.DEAD, dead[0].id)]
    assert store.take_expired() == ended
    assert store.do(Requeue(job_ids=[dead[0].id], now=NOW)) == [column in REPLACED]
    if column in REPLACED:
        assert drain(store) == {"bad": [1]}
    else:
        assert store.do(Purge(job_ids=[dead[0].id], now=NOW)) == [True]
        assert len(store.find().items) == len(GOOD)


def lease_all(store: Store) -> dict[str | None, Lease]:
    """``fill`` the store and lease all its jobs; return the leases by name."""
    fill(store)
    return {
        one.job.name: one.lease
        for one in store.do(Reserve(queues=["q"], limit=9, lease_for=HOUR, prefetch=True, now=NOW)).reservations
    }


def check_leased_row(store: Store, leased: dict[str | None, Lease]) -> None:
    """``bad`` was changed while it is leased: whatever becomes of it, the calls of the other leases succeed."""
    look_at_everything(store)
    [_, extended] = store.extend([leased["bad"], leased["good-0"]], lease_for=HOUR, now=NOW)
    assert isinstance(extended, Lease)
    settlements = [Retry(leased["good-1"]), Release(leased["bad"], delay=1), Fail(leased["good-2"], "no")]
    assert store.settle(settlements, now=NOW)[::2] == [None, None]
    store.reap(now=NOW + 2 * HOUR)  # also those that nobody has settled
    assert store.get("id-good-3").state is State.READY
    look_at_everything(store)


def check_ended_row(store: Store) -> None:
    """``bad`` was changed after its end: lists and calls about the other jobs answer."""
    jobs = look_at_everything(store)
    [bad] = [job for job in jobs if not job.id.startswith("id-good")]
    store.enqueue([_job("good-0"), _job("bad")], now=NOW)
    assert store.do(Requeue(job_ids=[bad.id, "id-good-1"], now=NOW))[1] is True
    assert store.do(Purge(job_ids=[bad.id, "id-good-2"], now=NOW))[1] is True
    store.do(Trim(now=NOW + 100 * HOUR * 24))
