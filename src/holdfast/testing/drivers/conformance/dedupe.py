"""Idempotency keys at enqueue (L12)."""

from __future__ import annotations

from holdfast.clock import DAY, MINUTE
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure
from holdfast.model.job import State
from holdfast.model.lease import Enqueued
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Fail
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import QUEUE, Harness

KEYS = {Feature.KEY}


@case("L12", needs=KEYS)
def the_same_key_in_a_queue_returns_the_existing_job(h: Harness) -> None:
    first = h.enqueue_job(idempotency_key="k")
    with h.assert_unchanged():
        again = h.enqueue(h.job(idempotency_key="k"))
        assert_equal(again, [Enqueued(id=first.id, existed=True)], "the answer")


@case("L12", needs=KEYS | {Feature.PRIORITY})
def the_same_key_with_another_payload_is_a_conflict_and_changes_nothing(h: Harness) -> None:
    first = h.enqueue_job(idempotency_key="k", payload=b"1")
    with h.assert_unchanged():
        again = h.enqueue(h.job(idempotency_key="k", payload=b"2", priority=9))
        assert_equal(again, [Enqueued(id=first.id, existed=True, conflict=True)], "the answer")


@case("L12", needs=KEYS)
def a_different_key_makes_a_different_job(h: Harness) -> None:
    first, second = h.enqueue_job(idempotency_key="k"), h.enqueue_job(idempotency_key="K")
    assert_equal(h.reserve_ids(5), [first.id, second.id], "the jobs reserved")


@case("L12", needs=KEYS)
def the_same_key_in_another_queue_makes_a_different_job(h: Harness) -> None:
    h.enqueue_job(idempotency_key="k", queue="a")
    h.enqueue_job(idempotency_key="k", queue="b")


@case("L12", needs=KEYS | {Feature.SPACES})
def the_same_key_in_another_space_makes_a_different_job(h: Harness) -> None:
    h.enqueue_job(idempotency_key="k")
    [answer] = h.open_other_space().enqueue([h.job(idempotency_key="k")], now=h.now_or_none)
    assert not answer.existed, "wanted a new job in the other space"


@case("L12", needs=KEYS)
def jobs_without_a_key_are_never_deduplicated(h: Harness) -> None:
    first, second = h.enqueue_job(), h.enqueue_job()
    assert_equal(h.reserve_ids(5), [first.id, second.id], "the jobs reserved")


@case("L12", needs=KEYS)
def a_large_job_batch_has_one_key_per_job(h: Harness) -> None:
    many = 600
    keys = [f"key {number}" for number in range(many)]
    jobs = h.job_batch([key.encode() for key in keys], keys)
    first = h.store.enqueue(jobs, now=h.now_or_none)
    assert_equal([answer.existed for answer in first], [False] * many, "existed, for new keys")
    again = h.job_batch([b"another", *jobs.payloads[1:], b"new", b"new"], [*keys, "new", "new"])
    answers = h.store.enqueue(again, now=h.now_or_none)
    assert_equal(
        [answer.existed for answer in answers], [True] * many + [False, True], "existed, for known keys and one new key"
    )
    assert_equal([answer.conflict for answer in answers], [True] + [False] * (many + 1), "conflict")
    assert_equal([answer.id for answer in answers[:many]], list(jobs.ids), "the jobs of the known keys")


@case("L12", needs=KEYS)
def a_large_job_batch_whose_keys_are_all_none_makes_only_new_jobs(h: Harness) -> None:
    for _ in range(2):
        jobs = h.job_batch([b"1"] * 600, [None] * 600)
        answers = h.store.enqueue(jobs, now=h.now_or_none)
        assert_equal({answer.existed for answer in answers}, {False}, "whether they existed")
    assert_equal(len(h.reserve_ids(1200)), 1200, "the number of jobs")


@case("L12", needs=KEYS | {Feature.LIMITS})
def a_large_job_batch_uses_the_dedupe_window_of_its_queue(h: Harness) -> None:
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(dedupe_window=MINUTE)))
    keys = [f"key {number}" for number in range(600)]
    h.store.enqueue(h.job_batch([b"1"] * 600, keys), now=h.now_or_none)
    h.must_settle(*(Ack(reservation.lease) for reservation in h.reserve(600)))
    h.advance(MINUTE)
    answers = h.store.enqueue(h.job_batch([b"1"] * 600, keys), now=h.now_or_none)
    assert_equal([answer.existed for answer in answers], [False] * 600, "existed, after the window")


@case("L12", needs=KEYS)
def a_key_that_appears_twice_in_a_batch_makes_one_job(h: Harness) -> None:
    first, second, third = h.job(idempotency_key="k"), h.job(idempotency_key="k"), h.job(idempotency_key="l")
    wanted = [
        Enqueued(id=first.id, existed=False),
        Enqueued(id=first.id, existed=True),
        Enqueued(id=third.id, existed=False),
    ]
    assert_equal(h.enqueue(first, second, third), wanted, "the answers")
    assert_equal(h.store.get(second.id), None, "the second job of the key")


@case("L12", needs=KEYS)
def a_key_is_remembered_after_the_ack(h: Harness) -> None:
    reservation = h.reserve_new_job(idempotency_key="k")
    h.must_settle(Ack(reservation.lease))
    assert_equal(h.enqueue(h.job(idempotency_key="k")), [Enqueued(id=reservation.job.id, existed=True)], "the answer")


@case("L12", "L2", needs=KEYS)
def a_key_is_remembered_for_exactly_its_window(h: Harness) -> None:
    began = h.now
    reservation = h.reserve_new_job(idempotency_key="k")
    h.must_settle(Ack(reservation.lease))
    h.advance_to(began + DAY - 1)
    [inside] = h.enqueue(h.job(idempotency_key="k"))
    assert inside.existed, "wanted the key remembered a microsecond before its window ends"
    h.advance_to(began + DAY)
    [outside] = h.enqueue(h.job(idempotency_key="k"))
    assert not outside.existed, "wanted a new job when the window is over"


@case("L12", needs=KEYS)
def a_repeated_enqueue_does_not_lengthen_the_window(h: Harness) -> None:
    began = h.now
    reservation = h.reserve_new_job(idempotency_key="k")
    h.must_settle(Ack(reservation.lease))
    h.advance_to(began + DAY - 1)
    h.enqueue(h.job(idempotency_key="k"))
    h.advance_to(began + DAY + 1)
    h.enqueue_job(idempotency_key="k")


@case("L12", needs=KEYS)
def a_key_is_remembered_after_its_window_while_the_job_is_ready(h: Harness) -> None:
    first = h.enqueue_job(idempotency_key="k")
    h.advance(10 * DAY)
    assert_equal(h.enqueue(h.job(idempotency_key="k")), [Enqueued(id=first.id, existed=True)], "the answer")


@case("L12", needs=KEYS)
def a_key_is_remembered_after_its_window_while_the_job_is_in_flight(h: Harness) -> None:
    reservation = h.reserve_new_job(idempotency_key="k", lease_for=20 * DAY)
    h.advance(10 * DAY)
    assert_equal(h.enqueue(h.job(idempotency_key="k")), [Enqueued(id=reservation.job.id, existed=True)], "the answer")


@case("L12", needs=KEYS)
def the_key_of_a_dead_letter_is_forgotten_after_the_window(h: Harness) -> None:
    reservation = h.reserve_new_job(idempotency_key="k")
    h.must_settle(Fail(reservation.lease, reason="no"))
    [inside] = h.enqueue(h.job(idempotency_key="k"))
    assert inside.existed, "wanted the key remembered inside its window"
    h.advance(DAY)
    h.enqueue_job(idempotency_key="k")


@case("L12", needs=KEYS | {Feature.JOBS})
def a_requeued_job_has_its_key_again(h: Harness) -> None:
    reservation = h.reserve_new_job(idempotency_key="k")
    h.must_settle(Fail(reservation.lease, reason="no"))
    h.advance(2 * DAY)
    h.requeue(reservation.job.id)
    assert_equal(h.enqueue(h.job(idempotency_key="k")), [Enqueued(id=reservation.job.id, existed=True)], "the answer")


@case("L12", needs=KEYS | {Feature.JOBS})
def the_key_of_a_purged_job_is_remembered_for_the_window(h: Harness) -> None:
    reservation = h.reserve_new_job(idempotency_key="k")
    h.must_settle(Ack(reservation.lease))
    h.purge(reservation.job.id)
    assert_equal(h.enqueue(h.job(idempotency_key="k")), [Enqueued(id=reservation.job.id, existed=True)], "the answer")


@case("L12", needs=KEYS | {Feature.LIMITS})
def the_window_is_a_setting_of_the_queue(h: Harness) -> None:
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(dedupe_window=MINUTE)))
    began = h.now
    reservation = h.reserve_new_job(idempotency_key="k")
    h.must_settle(Ack(reservation.lease))
    h.advance_to(began + MINUTE - 1)
    [inside] = h.enqueue(h.job(idempotency_key="k"))
    assert inside.existed, "wanted the key remembered inside the configured window"
    h.advance_to(began + MINUTE)
    h.enqueue_job(idempotency_key="k")


@case("L12", "L6", needs=KEYS)
def a_record_with_a_known_id_does_not_claim_its_key(h: Harness) -> None:
    known = h.enqueue_job()
    h.enqueue(h.job(id=known.id, idempotency_key="k"))
    h.enqueue_job(idempotency_key="k")


@case("L12", needs=KEYS)
def a_repeated_key_does_not_disturb_the_running_job(h: Harness) -> None:
    reservation = h.reserve_new_job(idempotency_key="k")
    h.enqueue(h.job(idempotency_key="k"))
    h.must_settle(Ack(reservation.lease))
    assert_equal(h.state(reservation.job.id), State.DONE, "the state")


@case("L12", needs=KEYS | {Feature.JOBS})
def a_purged_job_that_is_enqueued_again_takes_its_key_for_a_new_window(h: Harness) -> None:
    job = h.job(idempotency_key="k")
    h.enqueue(job)
    h.must_settle(Fail(h.reserve_one().lease, reason="no"))
    h.advance(2 * DAY)
    h.purge(job.id)
    assert_equal(h.enqueue(job), [Enqueued(id=job.id, existed=False)], "the answer after the purge")
    h.must_settle(Fail(h.reserve_one().lease, reason="no"))
    h.advance(MINUTE)
    assert_equal(h.enqueue(h.job(idempotency_key="k")), [Enqueued(id=job.id, existed=True)], "within the new window")
