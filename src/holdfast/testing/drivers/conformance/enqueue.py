"""Enqueue jobs."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Inspect
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.job import State
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued
from holdfast.model.settlement import Ack
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import Harness

LARGE_BATCH = 600  # jobs; a driver may store large batches in another way than small ones


@case("L9", needs={Feature.PRIORITY, Feature.SCHEDULE, Feature.KEY, Feature.DOMAIN})
def a_job_with_every_field_set_is_stored_unchanged(h: Harness) -> None:
    job = h.job(
        payload=bytes(range(256)),
        priority=7,
        run_at=h.now + SECOND,
        requested_run_at=h.now + SECOND,
        timeout=5 * SECOND,
        max_attempts=4,
        max_crashes=2,
        idempotency_key="key ü",
        domain="domain ✓",
        name="a name, for people",
        meta={"text": "ü", "list": [1, 2.5, None, True], "nested": {"a": {"b": []}}},
        signature="v1.abc",
    )
    assert_equal(h.enqueue(job), [Enqueued(id=job.id, existed=False)], "the answer")
    assert_equal(h.get(job.id), job, "the stored job")


@case("L9")
def a_job_with_an_empty_payload_and_no_crash_limit_is_stored_unchanged(h: Harness) -> None:
    job = h.job(payload=b"", max_crashes=None)
    h.enqueue(job)
    assert_equal(h.get(job.id), job, "the stored job")


@case("L9")
def a_payload_of_one_megabyte_is_returned_unchanged(h: Harness) -> None:
    payload = bytes(range(256)) * 4096
    h.enqueue_job(payload=payload)
    assert h.reserve_one().job.payload == payload, "wanted the payload of 1 MiB unchanged"


@case("L10")
def a_new_job_is_available_at_once(h: Harness) -> None:
    job = h.enqueue_job()
    inspection = h.inspect(job.id)
    assert_equal(inspection.available_at, h.now, "available_at")
    assert_equal(
        (inspection.fence, inspection.expires_at, inspection.reserved_at, inspection.ended_at),
        (None, None, None, None),
        "its lease",
    )


@case("L10", needs={Feature.SCHEDULE})
def a_scheduled_job_is_available_from_its_run_at(h: Harness) -> None:
    job = h.enqueue_job(run_at=h.now + SECOND)
    assert_equal(h.inspect(job.id).available_at, h.now + SECOND, "available_at")
    assert_equal(h.state(job.id), State.READY, "the state of a scheduled job")


@case("L6")
def answers_are_in_the_order_of_the_records(h: Harness) -> None:
    known = h.enqueue_job()
    jobs = [h.job(), known, h.job()]
    wanted = [Enqueued(id=job.id, existed=job is known) for job in jobs]
    assert_equal(h.enqueue(*jobs), wanted, "the answers")


@case("L6")
def an_empty_batch_returns_an_empty_list(h: Harness) -> None:
    assert_equal(h.enqueue(), [], "the answers")


@case("L6")
def a_known_id_is_answered_with_existed_and_changes_nothing(h: Harness) -> None:
    job = h.enqueue_job(payload=b"1", max_attempts=3)
    with h.assert_unchanged():
        again = replace(job, max_attempts=9, type="other", queue="other")
        assert_equal(h.enqueue(again), [Enqueued(id=job.id, existed=True)], "the answer")


@case("L6")
def a_known_id_with_another_payload_is_a_conflict(h: Harness) -> None:
    job = h.enqueue_job(payload=b"1")
    with h.assert_unchanged():
        answer = h.enqueue(replace(job, payload=b"2"))
        assert_equal(answer, [Enqueued(id=job.id, existed=True, conflict=True)], "the answer")


@case("L6")
def an_id_that_appears_twice_in_a_batch_makes_one_job(h: Harness) -> None:
    job = h.job()
    answers = h.enqueue(job, job)
    assert_equal([answer.existed for answer in answers], [False, True], "existed")
    assert_equal(h.reserve_ids(5), [job.id], "the jobs reserved")


@case("L6")
def the_id_of_a_job_in_flight_is_known(h: Harness) -> None:
    reservation = h.reserve_new_job()
    with h.assert_unchanged():
        [answer] = h.enqueue(h.job(id=reservation.job.id))
        assert answer.existed, "wanted existed=True while the job is in flight"


@case("L6")
def the_id_of_an_ended_job_is_known(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Ack(reservation.lease))
    with h.assert_unchanged():
        [answer] = h.enqueue(h.job(id=reservation.job.id))
        assert answer.existed, "wanted existed=True after the job has ended"


@case("L9")
def one_invalid_record_refuses_the_whole_batch(h: Harness) -> None:
    good, bad, other = h.job(), h.job(priority=10), h.job()
    with assert_raises(InvalidInput):
        h.enqueue(good, bad, other)
    assert_equal(h.store.do(Inspect(job_ids=[good.id, bad.id, other.id])), {}, "the stored jobs")


@case("L9")
def a_batch_that_is_too_large_is_refused(h: Harness) -> None:
    job = h.job()
    with assert_raises(InvalidInput):
        h.enqueue(*[job] * (bounds.MAX_BATCH_ITEMS + 1))
    assert_equal(h.store.get(job.id), None, "the job")


@case("L9", needs={Feature.JOBS, Feature.PRIORITY})
def a_large_job_batch_stores_the_same_jobs_as_single_records_would(h: Harness) -> None:
    payloads = [str(number).encode() for number in range(LARGE_BATCH)]
    jobs = h.job_batch(payloads, priority=3, max_attempts=4, name="one of many", meta={"source": "a file"})
    answers = h.store.enqueue(jobs, now=h.now_or_none)
    assert_equal(answers, [Enqueued(id=job_id, existed=False) for job_id in jobs.ids], "the answers")
    assert_equal(h.store.find(limit=1000).items, list(jobs), "the stored jobs")
    assert_equal(h.reserve_one().job.payload, b"0", "the payload of the first")


@case("L9", needs={Feature.JOBS, Feature.KEY})
def a_job_batch_has_one_signature_per_job(h: Harness) -> None:
    for count in (3, LARGE_BATCH):
        keys = [f"{count} {number}" if number % 2 else None for number in range(count)]
        signatures = [f"k1:v1.{number}" if number % 3 else None for number in range(count)]
        jobs = h.job_batch([b"1"] * count, keys, signatures)
        h.store.enqueue(jobs, now=h.now_or_none)
        stored = {job.id: job.signature for job in h.store.find(limit=1000).items}
        assert_equal([stored[job_id] for job_id in jobs.ids], signatures, "the stored signatures")


@case("L6", needs={Feature.JOBS})
def a_large_job_batch_that_is_enqueued_again_is_known(h: Harness) -> None:
    jobs = h.job_batch([b"1"] * LARGE_BATCH)
    h.store.enqueue(jobs[: LARGE_BATCH // 2], now=h.now_or_none)
    ended = h.reserve_one()
    h.must_settle(Ack(ended.lease))
    answers = h.store.enqueue(jobs, now=h.now_or_none)
    assert_equal(
        [answer.existed for answer in answers],
        [True] * (LARGE_BATCH // 2) + [False] * (LARGE_BATCH - LARGE_BATCH // 2),
        "existed",
    )
    assert_equal(len(h.store.find(limit=1000).items), LARGE_BATCH, "the number of jobs")


@case("L9")
def one_invalid_job_refuses_the_whole_job_batch(h: Harness) -> None:
    good = h.job_batch([b"1"] * LARGE_BATCH)
    for bad in (
        h.job_batch(good.payloads, priority=10),
        h.job_batch([*good.payloads[1:], "text"]),  # type: ignore[list-item]
        JobBatch(good.template, [*good.ids[1:], "not an id"], good.payloads),
        h.job_batch(good.payloads, signatures=["s" * (bounds.MAX_TEXT_BYTES + 1)] * LARGE_BATCH),
    ):
        with assert_raises(InvalidInput):
            h.store.enqueue(bad, now=h.now_or_none)
        assert_equal(
            h.store.do(Inspect(job_ids=[job_id for job_id in bad.ids if " " not in job_id])), {}, "the stored jobs"
        )


@case("L7")
def attempts_in_the_record_are_counted(h: Harness) -> None:
    h.enqueue_job(attempts=1, max_attempts=2)
    assert_equal(h.reserve_one().job.attempts, 2, "attempts")


@case("L3")
def another_connection_sees_a_job_as_soon_as_enqueue_returns(h: Harness) -> None:
    job = h.enqueue_job()
    other = h.connect_again()
    assert_equal(other.get(job.id), job, "the job, seen by another connection")
    [reservation] = other.reserve([job.queue], limit=1, lease_for=1, now=h.now_or_none)
    assert_equal(reservation.job.id, job.id, "the job reserved by another connection")
