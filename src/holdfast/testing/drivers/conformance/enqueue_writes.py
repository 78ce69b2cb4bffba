"""Registry writes in the same transaction as an enqueue."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Enqueue, Read, Scan, Write
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, WriteRefused
from holdfast.model import bounds
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued
from holdfast.model.registry import Change, Entry
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import Harness

WRITES = {Feature.REGISTRY, Feature.WRITES}
KIND = "schedule"
CALLERS = 4


def _change(key: str, value: bytes | None, **fields: Any) -> Change:
    return Change(**{"kind": KIND, "key": key, "value": value, **fields})


def _write_row(h: Harness, key: str, **fields: Any) -> Entry:
    [entry] = h.store.do(Write(changes=[_change(key, b"old", **fields)], now=h.now_or_none))
    assert entry is not None, "wanted the row written"
    return entry


def _rows(h: Harness) -> dict[str, bytes | None]:
    return {entry.key: entry.value for entry in h.store.do(Scan(kind=KIND, now=h.now_or_none))}


def _ids(h: Harness) -> list[str]:
    return [job.id for job in h.store.find().items]


def _enqueue(h: Harness, jobs: Sequence[JobRecord], *writes: Change) -> list[Enqueued]:
    return h.store.do(Enqueue(jobs=jobs, writes=writes, now=h.now_or_none)).answers


def _new(*jobs: JobRecord) -> list[Enqueued]:
    return [Enqueued(id=job.id, existed=False) for job in jobs]


@case("L12", needs=WRITES | {Feature.CALLER_CLOCK, Feature.JOBS, Feature.KEY, Feature.DOMAIN})
def writes_commit_with_their_jobs(h: Harness) -> None:
    known, removed = _write_row(h, "known"), _write_row(h, "removed")
    jobs = [h.job(), h.job(idempotency_key="k", domain="d")]
    writes = (
        _change("new", b"1", version=0, ttl=10),
        _change("known", b"2", version=known.version),
        _change("removed", None, version=removed.version),
        _change("any", b"3"),
    )
    assert_equal(_enqueue(h, jobs, *writes), _new(*jobs), "the answers")
    assert_equal(_ids(h), [job.id for job in jobs], "the jobs")
    assert_equal(_rows(h), {"new": b"1", "known": b"2", "any": b"3"}, "the rows")
    assert_equal(sorted(h.reserve_ids(2)), [job.id for job in jobs], "the reserved jobs")
    [new, changed] = h.store.do(Read(kind=KIND, keys=["new", "known"], now=h.now_or_none))
    assert new is not None, "wanted the new row"
    assert_equal(new.expires_at, h.now + 10, "expires_at")
    assert changed is not None, "wanted the known row"
    assert changed.version > known.version, f"wanted a new version, got {changed.version}"


@case("L12", needs=WRITES | {Feature.KEY})
def a_refused_write_stores_no_job_and_no_row(h: Harness) -> None:
    existing = _write_row(h, "there")
    jobs = [h.job(idempotency_key="k"), h.job()]
    writes = (_change("new", b"1", version=0), _change("there", b"2", version=0), _change("gone", None, version=7))
    with h.assert_unchanged(), assert_raises(WriteRefused) as caught:
        _enqueue(h, jobs, *writes)
    [error] = caught
    assert_equal((error.job_id, error.kind, error.key), (jobs[0].id, KIND, "there"), "the attributes of the error")
    assert_equal(h.store.do(Scan(kind=KIND, now=h.now_or_none)), [existing], "the rows")
    assert_equal(h.enqueue(*jobs), _new(*jobs), "the answers of an enqueue with the same ids and key")


@case("L12", needs=WRITES | {Feature.KEY})
def a_job_whose_key_is_taken_does_not_refuse_the_writes(h: Harness) -> None:
    known = h.enqueue_job(idempotency_key="k")
    new = h.job()
    answers = _enqueue(h, [h.job(idempotency_key="k"), new], _change("key", b"1", version=0))
    assert_equal(answers, [Enqueued(id=known.id, existed=True), *_new(new)], "the answers")
    assert_equal(_rows(h), {"key": b"1"}, "the rows")


@case("L6", needs=WRITES)
def a_job_whose_id_exists_does_not_refuse_the_writes(h: Harness) -> None:
    known = h.enqueue_job()
    assert_equal(
        _enqueue(h, [known], _change("key", b"1", version=0)), [Enqueued(id=known.id, existed=True)], "the answers"
    )
    assert_equal(_rows(h), {"key": b"1"}, "the rows")
    with assert_raises(WriteRefused):
        _enqueue(h, [known], _change("key", b"2", version=0))
    assert_equal(_rows(h), {"key": b"1"}, "the rows after a refused write")


@case("L12", needs=WRITES)
def a_batch_with_a_repeated_id_makes_its_writes_once(h: Harness) -> None:
    row = _write_row(h, "key")
    job = h.job()
    answers = _enqueue(h, [job, job, h.job()], _change("key", b"1", version=row.version))
    assert_equal([answer.existed for answer in answers], [False, True, False], "existed")
    assert_equal(_rows(h), {"key": b"1"}, "the rows")


@case("L9", needs=WRITES | {Feature.JOBS})
def an_invalid_job_stores_no_row(h: Harness) -> None:
    with assert_raises(InvalidInput):
        _enqueue(h, [h.job(), h.job(max_attempts=0)], _change("key", b"1"))
    assert_equal((_ids(h), _rows(h)), ([], {}), "jobs and rows")


@case("L14", needs=WRITES | {Feature.JOBS})
def writes_are_bounded_name_every_key_once_and_belong_to_a_job(h: Harness) -> None:
    change, job = _change("key", b"1"), h.job()
    too_many = [_change(f"key-{number}", b"1") for number in range(bounds.MAX_BATCH_ITEMS + 1)]
    for what, jobs, writes in (
        ("too many writes", [job], too_many),
        ("two writes to one key", [job], [change, _change("key", None)]),
        ("no job", [], [change]),
        ("an entry", [job], [Entry(key="key", value=b"1", version=1)]),
    ):
        with assert_raises(InvalidInput, what):
            h.store.do(Enqueue(jobs=jobs, writes=writes, now=h.now_or_none))  # type: ignore[arg-type]  # invalid on purpose
    assert_equal((_ids(h), _rows(h)), ([], {}), "jobs and rows")
    other = Change(kind="other", key="key", value=b"1")
    _enqueue(h, [job], change, other)
    assert_equal(_rows(h), {"key": b"1"}, "the rows of one kind")


@case("L12", needs=WRITES | {Feature.JOBS})
def many_jobs_and_writes_are_stored_in_one_call(h: Harness) -> None:
    jobs = [h.job() for _ in range(600)]
    writes = [_change(f"key-{number:03}", b"1", version=0) for number in range(600)]
    assert_equal(_enqueue(h, jobs, *writes), _new(*jobs), "the answers")
    assert_equal(len(h.store.find(limit=1000).items), 600, "the number of jobs")
    assert_equal(len(h.store.do(Scan(kind=KIND, limit=1000, now=h.now_or_none))), 600, "the number of rows")


@case("L12", "L2", needs=WRITES)
def a_write_of_an_enqueue_treats_an_expired_row_as_absent(h: Harness) -> None:
    _write_row(h, "key", ttl=10)
    job = h.job()
    h.advance(9)
    with assert_raises(WriteRefused):
        _enqueue(h, [job], _change("key", b"2", version=0))
    h.advance(1)
    assert_equal(_enqueue(h, [job], _change("key", b"2", version=0)), _new(job), "the answers")


def _try_enqueue(h: Harness, store: Store, job: JobRecord, writes: Sequence[Change]) -> list[Enqueued] | None:
    try:
        return store.do(Enqueue(jobs=[job], writes=writes, now=h.now_or_none)).answers
    except WriteRefused:
        return None


@case("L12", needs=WRITES)
def of_callers_that_expect_the_same_version_exactly_one_stores_its_job(h: Harness) -> None:
    stores = [h.connect_again() for _ in range(CALLERS)]
    for number in range(5):
        due, state = _write_row(h, f"due-{number}"), _write_row(h, f"state-{number}")
        writes = [
            _change(due.key, None, version=due.version),
            _change(state.key, b"fired", version=state.version),
            _change(f"next-{number}", b"1", version=0),
        ]
        jobs = [h.job() for _ in stores]
        calls = [
            partial(_try_enqueue, h, store, job, writes[::-1] if place % 2 else writes)
            for place, (store, job) in enumerate(zip(stores, jobs, strict=True))
        ]
        answers = h.run_concurrently(*calls)
        winners = [job.id for job, answer in zip(jobs, answers, strict=True) if answer is not None]
        assert_equal(len(winners), 1, "the number of callers that were not refused")
        stored = [job.id for job in jobs if h.store.get(job.id) is not None]
        assert_equal(stored, winners, "the stored jobs")
    rows = {
        key: value for number in range(5) for key, value in ((f"next-{number}", b"1"), (f"state-{number}", b"fired"))
    }
    assert_equal(_rows(h), rows, "the rows")


@case("L12", needs=WRITES)
def callers_with_different_rows_do_not_refuse_each_other(h: Harness) -> None:
    stores = [h.connect_again() for _ in range(CALLERS)]
    jobs = [h.job() for _ in stores]
    calls = [
        partial(_try_enqueue, h, store, job, [_change(job.id, b"1", version=0)])
        for store, job in zip(stores, jobs, strict=True)
    ]
    assert_equal(h.run_concurrently(*calls), [_new(job) for job in jobs], "the answers")
    assert_equal(_rows(h), {job.id: b"1" for job in jobs}, "the rows")
