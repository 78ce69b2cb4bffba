"""Idempotency keys at enqueue (L12)."""

from __future__ import annotations

from holdfast.clock import DAY, MINUTE
from holdfast.drivers.contract import Feature, QueueSettings
from holdfast.model.job import State
from holdfast.model.lease import Enqueued
from holdfast.model.settlement import Ack, Fail
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal
from holdfast.testing.drivers.harness import QUEUE, Harness

KEYS = {Feature.IDEMPOTENCY}


@case("L12", needs=KEYS)
def the_same_key_in_a_queue_gives_the_existing_job(h: Harness) -> None:
    first = h.put(idempotency_key="k")
    with h.unchanged():
        again = h.enqueue(h.job(idempotency_key="k"))
        equal(again, [Enqueued(id=first.id, existed=True)], "the answer")


@case("L12", needs=KEYS)
def the_same_key_with_another_payload_is_a_conflict_and_changes_nothing(h: Harness) -> None:
    first = h.put(idempotency_key="k", payload=b"1")
    with h.unchanged():
        again = h.enqueue(h.job(idempotency_key="k", payload=b"2", priority=9))
        equal(again, [Enqueued(id=first.id, existed=True, conflict=True)], "the answer")


@case("L12", needs=KEYS)
def another_key_is_another_job(h: Harness) -> None:
    first, second = h.put(idempotency_key="k"), h.put(idempotency_key="K")
    equal(h.taken(5), [first.id, second.id], "the jobs to run")


@case("L12", needs=KEYS)
def the_same_key_in_another_queue_is_another_job(h: Harness) -> None:
    h.put(idempotency_key="k", queue="a")
    h.put(idempotency_key="k", queue="b")


@case("L12", needs=KEYS | {Feature.SPACES})
def the_same_key_in_another_space_is_another_job(h: Harness) -> None:
    h.put(idempotency_key="k")
    [answer] = h.elsewhere().enqueue([h.job(idempotency_key="k")], now=h.stamp)
    assert not answer.existed, "wanted a new job in the other space"


@case("L12", needs=KEYS)
def jobs_without_a_key_are_never_the_same(h: Harness) -> None:
    first, second = h.put(), h.put()
    equal(h.taken(5), [first.id, second.id], "the jobs to run")


@case("L12", needs=KEYS)
def jobs_alike_have_a_key_each(h: Harness) -> None:
    many = 600
    keys = [f"key {number}" for number in range(many)]
    jobs = h.alike([key.encode() for key in keys], keys)
    first = h.store.enqueue(jobs, now=h.stamp)
    equal([answer.existed for answer in first], [False] * many, "existed, of new keys")
    again = h.alike([b"another", *jobs.payloads[1:], b"new", b"new"], [*keys, "new", "new"])
    answers = h.store.enqueue(again, now=h.stamp)
    equal([answer.existed for answer in answers], [True] * many + [False, True], "existed, of known keys and a new one")
    equal([answer.conflict for answer in answers], [True] + [False] * (many + 1), "conflict")
    equal([answer.id for answer in answers[:many]], list(jobs.ids), "the jobs of the known keys")


@case("L12", needs=KEYS)
def jobs_alike_of_which_none_has_a_key_are_all_new(h: Harness) -> None:
    for _ in range(2):
        jobs = h.alike([b"1"] * 600, [None] * 600)
        answers = h.store.enqueue(jobs, now=h.stamp)
        equal({answer.existed for answer in answers}, {False}, "whether they existed")
    equal(len(h.taken(1200)), 1200, "how many there are")


@case("L12", needs=KEYS | {Feature.LIMITS})
def the_window_of_a_key_among_many_is_that_of_its_queue(h: Harness) -> None:
    h.store.configure(QUEUE, QueueSettings(dedupe_window=MINUTE))
    keys = [f"key {number}" for number in range(600)]
    h.store.enqueue(h.alike([b"1"] * 600, keys), now=h.stamp)
    for held in h.reserve(600):
        h.settled(Ack(held.lease))
    h.advance(MINUTE)
    answers = h.store.enqueue(h.alike([b"1"] * 600, keys), now=h.stamp)
    equal([answer.existed for answer in answers], [False] * 600, "existed, after the window")


@case("L12", needs=KEYS)
def a_key_twice_in_one_batch_makes_one_job(h: Harness) -> None:
    first, second, third = h.job(idempotency_key="k"), h.job(idempotency_key="k"), h.job(idempotency_key="l")
    wanted = [
        Enqueued(id=first.id, existed=False),
        Enqueued(id=first.id, existed=True),
        Enqueued(id=third.id, existed=False),
    ]
    equal(h.enqueue(first, second, third), wanted, "the answers")
    equal(h.store.get(second.id), None, "the second job of the key")


@case("L12", needs=KEYS)
def a_key_is_remembered_after_the_ack(h: Harness) -> None:
    held = h.held(idempotency_key="k")
    h.settled(Ack(held.lease))
    equal(h.enqueue(h.job(idempotency_key="k")), [Enqueued(id=held.job.id, existed=True)], "the answer")


@case("L12", "L2", needs=KEYS)
def a_key_is_remembered_for_its_window_to_the_microsecond(h: Harness) -> None:
    began = h.now
    held = h.held(idempotency_key="k")
    h.settled(Ack(held.lease))
    h.advance_to(began + DAY - 1)
    [inside] = h.enqueue(h.job(idempotency_key="k"))
    assert inside.existed, "wanted the key remembered a microsecond before its window ends"
    h.advance_to(began + DAY)
    [outside] = h.enqueue(h.job(idempotency_key="k"))
    assert not outside.existed, "wanted a new job when the window is over"


@case("L12", needs=KEYS)
def a_repeated_enqueue_does_not_lengthen_the_window(h: Harness) -> None:
    began = h.now
    held = h.held(idempotency_key="k")
    h.settled(Ack(held.lease))
    h.advance_to(began + DAY - 1)
    h.enqueue(h.job(idempotency_key="k"))
    h.advance_to(began + DAY + 1)
    h.put(idempotency_key="k")


@case("L12", needs=KEYS)
def a_key_is_remembered_beyond_its_window_while_the_job_is_ready(h: Harness) -> None:
    first = h.put(idempotency_key="k")
    h.advance(10 * DAY)
    equal(h.enqueue(h.job(idempotency_key="k")), [Enqueued(id=first.id, existed=True)], "the answer")


@case("L12", needs=KEYS)
def a_key_is_remembered_beyond_its_window_while_the_job_is_in_flight(h: Harness) -> None:
    held = h.held(idempotency_key="k", lease_for=20 * DAY)
    h.advance(10 * DAY)
    equal(h.enqueue(h.job(idempotency_key="k")), [Enqueued(id=held.job.id, existed=True)], "the answer")


@case("L12", needs=KEYS)
def a_dead_letter_holds_its_key_no_longer_than_the_window(h: Harness) -> None:
    held = h.held(idempotency_key="k")
    h.settled(Fail(held.lease, reason="no"))
    [inside] = h.enqueue(h.job(idempotency_key="k"))
    assert inside.existed, "wanted the key remembered inside its window"
    h.advance(DAY)
    h.put(idempotency_key="k")


@case("L12", needs=KEYS)
def a_requeued_job_holds_its_key_again(h: Harness) -> None:
    held = h.held(idempotency_key="k")
    h.settled(Fail(held.lease, reason="no"))
    h.advance(2 * DAY)
    h.requeue(held.job.id)
    equal(h.enqueue(h.job(idempotency_key="k")), [Enqueued(id=held.job.id, existed=True)], "the answer")


@case("L12", needs=KEYS)
def a_purged_job_leaves_its_key_for_the_window(h: Harness) -> None:
    held = h.held(idempotency_key="k")
    h.settled(Ack(held.lease))
    h.purge(held.job.id)
    equal(h.enqueue(h.job(idempotency_key="k")), [Enqueued(id=held.job.id, existed=True)], "the answer")


@case("L12", needs=KEYS | {Feature.LIMITS})
def the_window_is_a_setting_of_the_queue(h: Harness) -> None:
    h.store.configure(QUEUE, QueueSettings(dedupe_window=MINUTE))
    began = h.now
    held = h.held(idempotency_key="k")
    h.settled(Ack(held.lease))
    h.advance_to(began + MINUTE - 1)
    [inside] = h.enqueue(h.job(idempotency_key="k"))
    assert inside.existed, "wanted the key remembered inside the configured window"
    h.advance_to(began + MINUTE)
    h.put(idempotency_key="k")


@case("L12", "L6", needs=KEYS)
def a_known_id_does_not_claim_a_key(h: Harness) -> None:
    known = h.put()
    h.enqueue(h.job(id=known.id, idempotency_key="k"))
    h.put(idempotency_key="k")


@case("L12", needs=KEYS)
def a_repeated_key_does_not_disturb_the_run(h: Harness) -> None:
    held = h.held(idempotency_key="k")
    h.enqueue(h.job(idempotency_key="k"))
    h.settled(Ack(held.lease))
    equal(h.state(held.job.id), State.DONE, "the state")
