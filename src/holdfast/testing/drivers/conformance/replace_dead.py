"""Enqueue with ``replace_dead_before``: a record takes the place of the dead job that has its key (L12, L13)."""

from __future__ import annotations

from functools import partial

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Enqueue, Write
from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued
from holdfast.model.ledger_reader import register_reader
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Fail
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import Harness

KEYS = {Feature.KEY}
THREADS = 4


def _dead_job(h: Harness, key: str = "k") -> tuple[str, int]:
    """Return the id of a new dead job with a key, and the first instant before which it ended."""
    reservation = h.reserve_new_job(idempotency_key=key, payload=b"1")
    h.must_settle(Fail(reservation.lease, reason="no"))
    ended_at = h.inspect(reservation.job.id).ended_at
    assert ended_at is not None, "wanted the instant at which the job ended"
    h.advance(10)
    return reservation.job.id, ended_at + 1


def _replace(h: Harness, *jobs: JobRecord, before: int) -> list[Enqueued]:
    return h.store.do(Enqueue(jobs=jobs, replace_dead_before=before, now=h.now_or_none)).answers


@case("L12", "L13", needs=KEYS)
def a_dead_job_is_removed_and_the_record_is_stored_under_its_key(h: Harness) -> None:
    dead, before = _dead_job(h)
    job = h.job(idempotency_key="k", payload=b"2")
    assert_equal(_replace(h, job, before=before), [Enqueued(id=job.id, existed=False)], "the answer")
    assert_equal(h.store.get(dead), None, "the dead job")
    if h.capabilities.has(Feature.LEDGER):
        assert_equal([(row.job_id, str(row.ending)) for row in h.ledger()][-1], (dead, "purged"), "the last ledger row")
    again = h.enqueue(h.job(idempotency_key="k", payload=b"2"))
    assert_equal(again, [Enqueued(id=job.id, existed=True)], "the answer for the key")
    reservation = h.reserve_one()
    assert_equal((reservation.job.id, reservation.job.payload, reservation.job.attempts), (job.id, b"2", 1), "the job")


@case("L12", needs=KEYS)
def a_dead_job_that_ended_at_the_instant_or_later_stays(h: Harness) -> None:
    dead, before = _dead_job(h)
    with h.assert_unchanged():
        answers = _replace(h, h.job(idempotency_key="k", payload=b"2"), before=before - 1)
        assert_equal(answers, [Enqueued(id=dead, existed=True, conflict=True)], "the answer")
    same = h.job(idempotency_key="k", payload=b"1")
    assert_equal(_replace(h, same, before=before), [Enqueued(id=same.id, existed=False)], "the answer, unchanged row")


@case("L12", needs=KEYS | {Feature.JOBS})
def a_job_that_is_not_dead_stays(h: Harness) -> None:
    done = h.reserve_new_job(idempotency_key="done")
    h.must_settle(Ack(done.lease))
    cancelled = h.enqueue_job(idempotency_key="cancelled")
    h.cancel(cancelled.id)
    running = h.reserve_new_job(idempotency_key="running")
    ready = h.enqueue_job(idempotency_key="ready")
    ids = [done.job.id, cancelled.id, running.job.id, ready.id]
    jobs = [h.job(idempotency_key=key) for key in ("done", "cancelled", "running", "ready")]
    h.advance(10)
    with h.assert_unchanged():
        answers = _replace(h, *jobs, before=h.now)
        assert_equal(answers, [Enqueued(id=job_id, existed=True) for job_id in ids], "the answers")


@case("L6", "L12", needs=KEYS)
def a_record_whose_id_exists_replaces_nothing(h: Harness) -> None:
    _, before = _dead_job(h)
    job = h.job(idempotency_key="k", payload=b"2")
    _replace(h, job, before=before)
    reservation = h.reserve_one()
    h.must_settle(Fail(reservation.lease, reason="again"))
    dead, _ = _dead_job(h, "other")
    known = h.job(id=job.id, idempotency_key="other", payload=b"2")
    h.advance(10)
    with h.assert_unchanged():  # the first call is repeated, because its answer was lost
        assert_equal(_replace(h, job, before=before), [Enqueued(id=job.id, existed=True)], "the answer")
        assert_equal(_replace(h, known, before=h.now), [Enqueued(id=job.id, existed=True)], "the answer for the id")
    assert_equal(h.state(dead), State.DEAD, "the other dead job")


@case("L12", needs=KEYS)
def of_two_records_with_one_key_the_first_replaces_the_job(h: Harness) -> None:
    _, before = _dead_job(h)
    first, second = h.job(idempotency_key="k", payload=b"2"), h.job(idempotency_key="k", payload=b"3")
    answers = _replace(h, first, second, h.job(idempotency_key=None), before=before)
    assert_equal([answer.existed for answer in answers], [False, True, False], "existed")
    assert_equal((answers[1].id, answers[1].conflict), (first.id, True), "the answer for the second record")


@case("L12", needs=KEYS)
def a_large_job_batch_replaces_only_dead_jobs(h: Harness) -> None:
    _, before = _dead_job(h, "key 7")
    keys = [f"key {number}" for number in range(600)]
    known = h.enqueue_job(idempotency_key="key 9", payload=b"2")
    jobs = h.job_batch([b"2"] * len(keys), keys)
    answers = h.store.do(Enqueue(jobs=jobs, replace_dead_before=before, now=h.now_or_none)).answers
    assert_equal([place for place, answer in enumerate(answers) if answer.existed], [9], "the records that existed")
    assert_equal(answers[9].id, known.id, "the job of a key that is taken")


@case("L12", "L13", needs=KEYS)
def of_threads_that_replace_one_dead_job_one_stores_its_record(h: Harness) -> None:
    for number in range(5):
        dead, before = _dead_job(h, f"key {number}")
        jobs = [h.job(idempotency_key=f"key {number}", payload=b"2") for _ in range(THREADS)]
        stores = [h.connect_again() for _ in range(THREADS)]
        calls = [
            partial(store.do, Enqueue(jobs=[job], replace_dead_before=before, now=h.now_or_none))
            for store, job in zip(stores, jobs, strict=True)
        ]
        answers = [stored.answers[0] for stored in h.run_concurrently(*calls)]
        assert_equal(sum(not answer.existed for answer in answers), 1, "records that were stored")
        assert_equal(len({answer.id for answer in answers}), 1, "jobs that have the key")
        if h.capabilities.has(Feature.LEDGER):
            purged = [row for row in h.ledger() if row.job_id == dead and row.ending == "purged"]
            assert_equal(len(purged), 1, "ledger rows of the replaced job")
        h.must_settle(Ack(h.reserve_one().lease))


@case("L13", needs=KEYS | {Feature.LEDGER, Feature.REGISTRY})
def a_job_stays_until_the_registered_readers_have_read_its_rows(h: Harness) -> None:
    dead, before = _dead_job(h)
    h.store.do(Write(changes=[register_reader("reader", cursor=None)], now=h.now_or_none))
    job = h.job(idempotency_key="k", payload=b"1")
    with h.assert_unchanged():
        assert_equal(_replace(h, job, before=before), [Enqueued(id=dead, existed=True)], "the answer")
    h.store.do(Write(changes=[register_reader("reader", cursor=h.store.ledger().cursor)], now=h.now_or_none))
    assert_equal(_replace(h, job, before=before), [Enqueued(id=job.id, existed=False)], "the answer")


@case("L12", needs=KEYS | {Feature.OFFSET, Feature.REGISTRY, Feature.WRITES, Feature.DOMAIN})
def offsets_writes_and_wrong_instants_are_refused(h: Harness) -> None:
    job, write = h.job(idempotency_key="k"), Change(kind="kind", key="key", value=b"1")
    with h.assert_unchanged():
        with assert_raises(InvalidInput):
            _replace(h, h.job(idempotency_key="k", domain="d", offset=1), before=h.now)
        with assert_raises(InvalidInput):
            h.store.do(Enqueue(jobs=[job], writes=[write], replace_dead_before=h.now, now=h.now_or_none))
        for wrong in (-1, True, "now"):
            with assert_raises(InvalidInput):
                _replace(h, job, before=wrong)  # type: ignore[arg-type]  # invalid on purpose
