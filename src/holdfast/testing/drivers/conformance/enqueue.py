"""Accepting jobs."""

from __future__ import annotations

from dataclasses import replace

from holdfast.clock import SECOND
from holdfast.drivers.contract import Feature
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.job import State
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued
from holdfast.model.settlement import Ack
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, raising
from holdfast.testing.drivers.harness import Harness

MANY = 600  # enough for whatever a driver does with large batches alone


@case("L9")
def a_new_job_is_kept_exactly_as_it_was_given(h: Harness) -> None:
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
        webhook="https://example.com/hook?a=b",
        signature="v1.abc",
    )
    equal(h.enqueue(job), [Enqueued(id=job.id, existed=False)], "the answer")
    equal(h.get(job.id), job, "the stored job")


@case("L9")
def the_shortest_job_is_kept_exactly_too(h: Harness) -> None:
    job = h.job(payload=b"", max_crashes=None)
    h.enqueue(job)
    equal(h.get(job.id), job, "the stored job")


@case("L9")
def a_large_payload_comes_back_whole(h: Harness) -> None:
    payload = bytes(range(256)) * 4096
    h.put(payload=payload)
    assert h.take().job.payload == payload, "wanted the payload of 1 MiB unchanged"


@case("L10")
def a_new_job_is_available_from_the_moment_it_came(h: Harness) -> None:
    job = h.put()
    found = h.inspect(job.id)
    equal(found.available_at, h.now, "available_at")
    equal((found.fence, found.expires_at, found.reserved_at, found.ended_at), (None, None, None, None), "its lease")


@case("L10", needs={Feature.SCHEDULING})
def a_scheduled_job_is_available_from_its_run_at(h: Harness) -> None:
    job = h.put(run_at=h.now + SECOND)
    equal(h.inspect(job.id).available_at, h.now + SECOND, "available_at")
    equal(h.state(job.id), State.READY, "the state of a scheduled job")


@case("L6")
def answers_come_in_the_order_given(h: Harness) -> None:
    known = h.put()
    jobs = [h.job(), known, h.job()]
    wanted = [Enqueued(id=job.id, existed=job is known) for job in jobs]
    equal(h.enqueue(*jobs), wanted, "the answers")


@case("L6")
def an_empty_batch_is_answered_with_nothing(h: Harness) -> None:
    equal(h.enqueue(), [], "the answers")


@case("L6")
def a_known_id_answers_existed_and_changes_nothing(h: Harness) -> None:
    job = h.put(payload=b"1", priority=3)
    with h.unchanged():
        again = replace(job, priority=9, type="other", queue="other")
        equal(h.enqueue(again), [Enqueued(id=job.id, existed=True)], "the answer")


@case("L6")
def a_known_id_with_another_payload_is_a_conflict(h: Harness) -> None:
    job = h.put(payload=b"1")
    with h.unchanged():
        answer = h.enqueue(replace(job, payload=b"2"))
        equal(answer, [Enqueued(id=job.id, existed=True, conflict=True)], "the answer")


@case("L6")
def an_id_twice_in_one_batch_makes_one_job(h: Harness) -> None:
    job = h.job()
    answers = h.enqueue(job, job)
    equal([answer.existed for answer in answers], [False, True], "existed")
    equal(h.taken(5), [job.id], "the jobs to run")


@case("L6")
def an_id_in_flight_is_known(h: Harness) -> None:
    held = h.held()
    with h.unchanged():
        [answer] = h.enqueue(h.job(id=held.job.id))
        assert answer.existed, "wanted existed=True while the job is in flight"


@case("L6")
def an_id_that_has_ended_is_known(h: Harness) -> None:
    held = h.held()
    h.settled(Ack(held.lease))
    with h.unchanged():
        [answer] = h.enqueue(h.job(id=held.job.id))
        assert answer.existed, "wanted existed=True after the job has ended"


@case("L9")
def one_bad_record_and_none_is_stored(h: Harness) -> None:
    good, bad, other = h.job(), h.job(priority=10), h.job()
    with raising(InvalidInput):
        h.enqueue(good, bad, other)
    equal(h.store.find().items, [], "the stored jobs")


@case("L9")
def a_batch_beyond_the_bound_is_refused_whole(h: Harness) -> None:
    job = h.job()
    with raising(InvalidInput):
        h.enqueue(*[job] * (bounds.MAX_BATCH_ITEMS + 1))
    equal(h.store.get(job.id), None, "the job")


@case("L9")
def jobs_alike_are_kept_as_if_each_had_been_given_alone(h: Harness) -> None:
    payloads = [str(number).encode() for number in range(MANY)]
    jobs = h.alike(payloads, priority=3, max_attempts=4, name="one of many", meta={"source": "a file"})
    answers = h.store.enqueue(jobs, now=h.stamp)
    equal(answers, [Enqueued(id=job_id, existed=False) for job_id in jobs.ids], "the answers")
    equal(h.store.find(limit=1000).items, list(jobs), "the stored jobs")
    equal(h.take().job.payload, b"0", "the payload of the first")


@case("L6")
def jobs_alike_that_are_given_again_are_known(h: Harness) -> None:
    jobs = h.alike([b"1"] * MANY)
    h.store.enqueue(jobs[: MANY // 2], now=h.stamp)
    ended = h.take()
    h.settled(Ack(ended.lease))
    answers = h.store.enqueue(jobs, now=h.stamp)
    equal([answer.existed for answer in answers], [True] * (MANY // 2) + [False] * (MANY - MANY // 2), "existed")
    equal(len(h.store.find(limit=1000).items), MANY, "how many jobs there are")


@case("L9")
def one_bad_job_among_many_alike_and_none_is_stored(h: Harness) -> None:
    good = h.alike([b"1"] * MANY)
    for bad in (
        h.alike(good.payloads, priority=10),
        h.alike([*good.payloads[1:], "text"]),  # type: ignore[list-item]
        JobBatch(good.template, [*good.ids[1:], "not an id"], good.payloads),
    ):
        with raising(InvalidInput):
            h.store.enqueue(bad, now=h.stamp)
    equal(h.store.find(limit=1000).items, [], "the stored jobs")


@case("L7")
def attempts_that_came_with_a_record_count(h: Harness) -> None:
    h.put(attempts=1, max_attempts=2)
    equal(h.take().job.attempts, 2, "attempts")


@case("L3")
def a_job_is_seen_by_another_connection_as_soon_as_it_is_accepted(h: Harness) -> None:
    job = h.put()
    other = h.another()
    equal(other.get(job.id), job, "the job, seen by another connection")
    [found] = other.reserve([job.queue], limit=1, lease_for=1, now=h.stamp)
    equal(found.job.id, job.id, "the job reserved by another connection")
