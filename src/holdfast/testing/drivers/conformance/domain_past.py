"""Offsets that a domain has, or has had: enqueue answers, and stores nothing (L11)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

from holdfast.clock import DAY
from holdfast.drivers.answers import Stored
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Enqueue, LeaseTerms, Trim
from holdfast.drivers.store import Store
from holdfast.model import bounds
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued
from holdfast.model.settlement import Ack, Fail, Release
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.domain_calls import (
    OFFSETS,
    ask,
    assert_past,
    end_offsets,
    enqueue_at,
    job_at,
    run_all,
)
from holdfast.testing.drivers.harness import LEASE, Harness


@case("L11", "L6", needs=OFFSETS)
def an_open_offset_is_answered_by_its_job(h: Harness) -> None:
    job = enqueue_at(h, 4)[0]
    with h.assert_unchanged():
        assert_equal(ask(h, 4), Enqueued(id=job, existed=True), "the answer while it is ready")
    h.reserve_one()
    with h.assert_unchanged():
        assert_equal(ask(h, 4), Enqueued(id=job, existed=True), "the answer while it runs")


@case("L11", "L12", needs=OFFSETS)
def a_different_payload_for_an_open_offset_is_a_conflict(h: Harness) -> None:
    job = enqueue_at(h, 4, payload=b"1")[0]
    with h.assert_unchanged():
        assert_equal(ask(h, 4, payload=b"2"), Enqueued(id=job, existed=True, conflict=True), "the answer")


@case("L11", needs=OFFSETS)
def a_done_offset_is_past(h: Harness) -> None:
    job = enqueue_at(h, 4)[0]
    run_all(h)
    with h.assert_unchanged():
        assert_past(h, 4, job, "the answer")
        wanted = Enqueued(id=job, existed=True, conflict=True, past=True)
        assert_equal(ask(h, 4, payload=b"2"), wanted, "the answer for another payload")


@case("L11", needs=OFFSETS)
def a_dead_offset_is_past(h: Harness) -> None:
    job = enqueue_at(h, 4)[0]
    h.must_settle(Fail(h.reserve_one().lease, reason="no"))
    assert_past(h, 4, job, "the answer")


@case("L11", needs=OFFSETS)
def an_offset_that_ended_by_the_expiry_of_its_lease_is_past(h: Harness) -> None:
    job = enqueue_at(h, 4, max_attempts=1)[0]
    h.reserve_one()
    assert_equal(h.expire_leases(), 1, "reaped")
    assert_past(h, 4, job, "the answer")


@case("L11", needs=OFFSETS | {Feature.JOBS})
def cancelled_offsets_are_past(h: Harness) -> None:
    jobs = enqueue_at(h, 4, 5, 7)
    running = h.reserve_one()
    h.cancel(*jobs)
    assert_equal(ask(h, 4), Enqueued(id=jobs[0], existed=True), "the answer while it runs")
    h.must_settle(Release(running.lease))
    for offset, job in zip((4, 5, 7), jobs, strict=True):
        assert_past(h, offset, job, f"the answer for the offset {offset}")
    assert not ask(h, 6).existed, "wanted the offset between them to be new"


@case("L11", "L12", needs=OFFSETS | {Feature.KEY})
def a_known_offset_stores_nothing_and_takes_no_key(h: Harness) -> None:
    end_offsets(h, 4)
    enqueue_at(h, 5)
    with h.assert_unchanged():
        assert ask(h, 4, idempotency_key="past").past, "wanted the ended offset to be past"
        assert ask(h, 5, idempotency_key="open").existed, "wanted the open offset to be known"
    for key in ("past", "open"):
        h.enqueue_job(idempotency_key=key)


@case("L11", "L12", needs=OFFSETS | {Feature.KEY})
def an_id_decides_before_a_key_and_a_key_before_an_offset(h: Harness) -> None:
    by_id = h.enqueue_job().id
    by_key = h.enqueue_job(idempotency_key="k").id
    by_offset = enqueue_at(h, 4)[0]
    answers = [
        ask(h, 4, id=by_id, idempotency_key="k"),
        ask(h, 4, idempotency_key="k"),
        ask(h, 4, idempotency_key="free"),
    ]
    wanted = [Enqueued(id=job_id, existed=True) for job_id in (by_id, by_key, by_offset)]
    assert_equal(answers, wanted, "the answers")


@case("L11", needs=OFFSETS | {Feature.JOBS})
def an_offset_that_occurs_twice_in_a_batch_is_stored_once(h: Harness) -> None:
    first, again, other, twice = job_at(h, 4), job_at(h, 4, payload=b"2"), job_at(h, 3), job_at(h, 4, queue="other")
    wanted = [
        Enqueued(id=first.id, existed=False),
        Enqueued(id=first.id, existed=True, conflict=True),
        Enqueued(id=other.id, existed=False),
        Enqueued(id=twice.id, existed=False),
    ]
    assert_equal(h.enqueue(first, again, other, twice), wanted, "the answers")
    assert_equal(len(h.store.find().items), 3, "jobs stored")


@case("L11", needs=OFFSETS)
def a_batch_is_answered_record_by_record(h: Harness) -> None:
    end_offsets(h, 1)
    opened = enqueue_at(h, 2)[0]
    past, known, new, free = job_at(h, 1), job_at(h, 2), job_at(h, 3), h.job()
    answers = h.enqueue(new, past, free, known)
    states = [(answer.existed, answer.past) for answer in answers]
    assert_equal(states, [(False, False), (True, True), (False, False), (True, False)], "existed and past")
    assert_equal([answers[0].id, answers[2].id, answers[3].id], [new.id, free.id, opened], "the ids")


@case("L11", "L12", needs=OFFSETS | {Feature.KEY})
def a_batch_arrives_in_its_order_also_behind_a_refused_record(h: Harness) -> None:
    end_offsets(h, 4)
    past = job_at(h, 4, idempotency_key="k")
    jobs = [job_at(h, None, idempotency_key="k"), job_at(h, None)]
    answers = h.enqueue(past, *jobs)
    assert_equal([answer.existed for answer in answers], [True, False, False], "existed")
    ran = []
    for _ in jobs:
        running = h.reserve_one()
        ran.append(running.job.id)
        h.must_settle(Ack(running.lease))
    assert_equal(ran, [job.id for job in jobs], "the order of the jobs without an offset")


@case("L11", "L9", needs=OFFSETS)
def an_offset_between_those_that_have_ended_is_new(h: Harness) -> None:
    end_offsets(h, 1, 3, 5)
    new = enqueue_at(h, 2)[0]
    assert_equal(h.reserve_ids(9), [new], "reserved")
    assert_equal([ask(h, offset).past for offset in (1, 3, 5)], [True] * 3, "the others")
    assert_equal([ask(h, offset).existed for offset in (0, 4, 6)], [False] * 3, "offsets beside them")


def _assert_exact(h: Harness, ended: Sequence[int], highest: int) -> None:
    """Assert that exactly these offsets are past. Every other offset is then open."""
    answers = h.enqueue(*[job_at(h, offset) for offset in range(highest + 1)])
    got = [offset for offset, answer in enumerate(answers) if answer.past]
    assert_equal(got, sorted(ended), "the past offsets")


@case("L11", "L9", needs=OFFSETS | {Feature.JOBS})
def many_offsets_that_ended_in_any_order_are_known_exactly(h: Harness) -> None:
    source = random.Random(18)
    offsets = source.sample(range(1200), 1000)
    jobs = [job_at(h, offset) for offset in offsets]
    h.enqueue(*jobs)
    for start in range(0, 1000, 250):
        h.cancel(*[job.id for job in jobs[start : start + 250]])
    _assert_exact(h, offsets, 1199)


@case("L11", needs=OFFSETS | {Feature.JOBS})
def offsets_that_ended_one_by_one_are_known_exactly(h: Harness) -> None:
    jobs = dict(zip(range(12), enqueue_at(h, *range(12)), strict=True))
    ended = [5, 7, 6, 0, 11, 2, 1, 9, 3]
    for offset in ended:
        h.cancel(jobs[offset])
    h.cancel(jobs[4], jobs[10])
    _assert_exact(h, [*ended, 4, 10], 12)


@case("L11", "L9", needs=OFFSETS | {Feature.JOBS})
def a_past_offset_is_known_after_its_job_is_purged(h: Harness) -> None:
    jobs = enqueue_at(h, 4, 5)
    run_all(h)
    h.purge(*jobs)
    job = job_at(h, 4, payload=b"2")
    assert_equal(h.enqueue(job), [Enqueued(id=job.id, existed=True, past=True)], "the answer")
    assert_equal(h.store.get(job.id), None, "the job")


@case("L11", "L9", needs=OFFSETS | {Feature.JOBS})
def a_past_offset_is_known_after_its_job_is_trimmed(h: Harness) -> None:
    end_offsets(h, 4)
    h.advance(9 * DAY)
    assert_equal(h.store.do(Trim(now=h.now)).jobs, 1, "trimmed")
    job = job_at(h, 4)
    assert_equal(h.enqueue(job), [Enqueued(id=job.id, existed=True, past=True)], "the answer")


@case("L11", needs=OFFSETS | {Feature.JOBS})
def a_requeued_offset_is_open_again(h: Harness) -> None:
    job = enqueue_at(h, 4)[0]
    h.cancel(job)
    h.requeue(job)
    assert_equal(ask(h, 4), Enqueued(id=job, existed=True), "the answer")
    run_all(h)
    assert_past(h, 4, job, "the answer after its second end")


@case("L11", needs=OFFSETS)
def the_largest_offset_is_an_offset_like_others(h: Harness) -> None:
    most = bounds.MAX_OFFSET
    jobs = enqueue_at(h, most, 0, most - 1)
    assert_equal(run_all(h), [0, most - 1, most], "the order")
    assert_past(h, most, jobs[0], "the answer for the largest")
    assert not ask(h, most - 2).existed, "wanted an offset below them to be new"


@case("L13", "L11", needs=OFFSETS | {Feature.LEDGER})
def the_ledger_has_the_offset(h: Harness) -> None:
    end_offsets(h, 4)
    assert_equal([(row.domain, row.offset) for row in h.ledger()], [("d", 4)], "domain and offset")


@case("L11", needs=OFFSETS)
def a_job_has_its_offset_in_every_state(h: Harness) -> None:
    job = enqueue_at(h, 4)[0]
    assert_equal(h.get(job).offset, 4, "the offset of a ready job")
    h.must_settle(Ack(h.reserve_one().lease))
    assert_equal(h.get(job).offset, 4, "the offset of a done job")


@case("L11", needs=OFFSETS)
def enqueue_leased_leases_no_job_with_an_offset(h: Harness) -> None:
    job = job_at(h, 4)
    stored = h.store.do(Enqueue(jobs=[job], lease=LeaseTerms(lease_for=LEASE), now=h.now_or_none))
    assert_equal(stored, Stored([Enqueued(id=job.id, existed=False)]), "the answer")
    assert_equal(h.reserve_ids(), [job.id], "reserved")


@case("L11", "L9", needs=OFFSETS)
def one_of_many_threads_stores_an_offset(h: Harness) -> None:
    offsets = range(5)
    batches = [[job_at(h, offset) for offset in order] for order in (offsets, reversed(offsets)) for _ in range(3)]
    stores = [h.connect_again() for _ in batches]
    now = h.now_or_none
    calls = [
        lambda store=store, batch=batch: store.enqueue(batch, now=now)
        for store, batch in zip(stores, batches, strict=True)
    ]
    answers = [
        (job.offset, answer)
        for batch, found in zip(batches, h.run_concurrently(*calls), strict=True)
        for job, answer in zip(batch, found, strict=True)
    ]
    for offset in offsets:
        of_offset = [answer for place, answer in answers if place == offset]
        assert_equal(sum(not answer.existed for answer in of_offset), 1, f"new jobs for the offset {offset}")
        assert_equal(len({answer.id for answer in of_offset}), 1, f"ids for the offset {offset}")
    assert_equal(run_all(h), list(offsets), "the order")


def _enqueue_into(answers: list[Enqueued], store: Store, job: JobRecord, now: int | None) -> None:
    answers += store.enqueue([job], now=now)


@case("L11", "L9", needs=OFFSETS)
def an_offset_that_ends_while_it_is_enqueued_again_is_stored_once(h: Harness) -> None:
    other = h.connect_again()
    for offset in range(8):
        enqueue_at(h, offset)
        reservation, again = h.reserve_one(), job_at(h, offset)
        answers: list[Enqueued] = []
        h.run_concurrently(
            partial(h.must_settle, Ack(reservation.lease)), partial(_enqueue_into, answers, other, again, h.now_or_none)
        )
        known = [(answer.id, answer.existed) for answer in answers]
        assert_equal(known, [(reservation.job.id, True)], "the answer")
        assert_equal(h.store.get(again.id), None, "a second job with the offset")
    assert_equal(h.reserve(9), [], "jobs left")
