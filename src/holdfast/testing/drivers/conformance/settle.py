"""Ending a lease: what each verb makes of a job, and when it may (L5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from holdfast.clock import SECOND
from holdfast.errors import InvalidInput, JobNotInflight, LeaseExpired, LeaseMismatch
from holdfast.model import bounds
from holdfast.model.job import State
from holdfast.model.lease import Lease
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, raising, refused
from holdfast.testing.drivers.harness import LEASE, Harness

VERBS: dict[str, Callable[[Lease], Settlement]] = {
    "ack": lambda lease: Ack(lease, result=b"late"),
    "retry": lambda lease: Retry(lease, error="late"),
    "fail": lambda lease: Fail(lease, reason="late"),
    "release": Release,
}


@case("L5")
def an_ack_makes_the_job_done_and_keeps_its_result(h: Harness) -> None:
    held = h.held()
    h.advance(SECOND)
    h.settled(Ack(held.lease, result=b"\x00result"))
    equal(h.get(held.job.id), replace(held.job, state=State.DONE, result=b"\x00result"), "the job")
    equal(h.inspect(held.job.id).ended_at, h.now, "ended_at")
    h.advance(2 * LEASE)
    equal((h.reap(), h.reserve(5)), (0, []), "reaped and reserved afterwards")


@case("L5")
def an_ack_needs_no_result(h: Harness) -> None:
    held = h.held()
    h.settled(Ack(held.lease))
    equal(h.get(held.job.id).result, None, "the result")


@case("L5", "L9")
def a_fail_makes_a_dead_letter_with_reason_and_error(h: Harness) -> None:
    held = h.held(meta={"a": 1}, payload=b"whole")
    h.advance(SECOND)
    h.settled(Fail(held.lease, reason="bad payload", error="ValueError: ü"))
    wanted = replace(
        held.job,
        state=State.DEAD,
        last_error="ValueError: ü",
        failed_at=h.now,
        dead_reason="bad payload",
        dead_at=h.now,
    )
    equal(h.get(held.job.id), wanted, "the dead letter")
    equal(h.inspect(held.job.id).ended_at, h.now, "ended_at")
    h.advance(2 * LEASE)
    equal((h.reap(), h.reserve(5)), (0, []), "reaped and reserved afterwards")


@case("L5")
def a_settlement_of_an_unknown_job_is_refused(h: Harness) -> None:
    lease = Lease(job_id="unknown", token="1.0", fence=1, expires_at=h.now + LEASE)
    for verb, make in VERBS.items():
        [answer] = h.settle(make(lease))
        assert isinstance(answer, JobNotInflight), f"{verb}: wanted JobNotInflight, got {answer!r}"
        equal((answer.job_id, answer.state), ("unknown", None), f"the facts of the refused {verb}")


@case("L5")
def a_settlement_of_a_job_that_was_never_reserved_is_refused(h: Harness) -> None:
    job = h.put()
    lease = Lease(job_id=job.id, token="1.0", fence=1, expires_at=h.now + LEASE)
    with h.unchanged():
        for make in VERBS.values():
            refused(h.settle(make(lease)), JobNotInflight)


def _refused_with_another_token(h: Harness, verb: str) -> None:
    held = h.held()
    h.settled(Retry(held.lease))
    h.take()
    with h.unchanged():
        refused(h.settle(VERBS[verb](held.lease)), LeaseMismatch)


@case("L5")
def an_ack_with_another_token_is_refused_and_changes_nothing(h: Harness) -> None:
    _refused_with_another_token(h, "ack")


@case("L5")
def a_retry_with_another_token_is_refused_and_changes_nothing(h: Harness) -> None:
    _refused_with_another_token(h, "retry")


@case("L5")
def a_fail_with_another_token_is_refused_and_changes_nothing(h: Harness) -> None:
    _refused_with_another_token(h, "fail")


@case("L5")
def a_release_with_another_token_is_refused_and_changes_nothing(h: Harness) -> None:
    _refused_with_another_token(h, "release")


def _refused_when_expired(h: Harness, verb: str) -> None:
    for offset in (-1, 0, 1):
        held = h.held(queue=f"at{offset}")
        h.advance_to(held.lease.expires_at + offset)
        if offset < 0:
            h.settled(VERBS[verb](held.lease))
            continue
        with h.unchanged():
            [answer] = h.settle(VERBS[verb](held.lease))
        assert isinstance(answer, LeaseExpired), f"{verb} at {offset:+} µs: wanted LeaseExpired, got {answer!r}"
        equal((answer.expires_at, answer.now), (held.lease.expires_at, h.now), "its facts")


@case("L5", "L2")
def an_ack_is_refused_from_the_microsecond_the_lease_ends(h: Harness) -> None:
    _refused_when_expired(h, "ack")


@case("L5", "L2")
def a_retry_is_refused_from_the_microsecond_the_lease_ends(h: Harness) -> None:
    _refused_when_expired(h, "retry")


@case("L5", "L2")
def a_fail_is_refused_from_the_microsecond_the_lease_ends(h: Harness) -> None:
    _refused_when_expired(h, "fail")


@case("L5", "L2")
def a_release_is_refused_from_the_microsecond_the_lease_ends(h: Harness) -> None:
    _refused_when_expired(h, "release")


@case("L5")
def another_token_is_told_before_the_expiry(h: Harness) -> None:
    held = h.held()
    h.advance(LEASE)
    with h.unchanged():
        for make in VERBS.values():
            refused(h.settle(make(replace(held.lease, token="1.0"))), LeaseMismatch)


@case("L5")
def not_in_flight_is_told_before_another_token_and_the_expiry(h: Harness) -> None:
    held = h.held()
    h.settled(Fail(held.lease, reason="no"))
    h.advance(LEASE)
    with h.unchanged():
        for make in VERBS.values():
            [answer] = h.settle(make(replace(held.lease, token="1.0")))
            assert isinstance(answer, JobNotInflight), f"wanted JobNotInflight, got {answer!r}"
            equal(answer.state, "dead", "the state it tells")


@case("L5")
def the_token_of_one_job_settles_no_other(h: Harness) -> None:
    first, second = h.held(), h.held()
    stolen = replace(first.lease, job_id=second.job.id)
    with h.unchanged():
        for make in VERBS.values():
            refused(h.settle(make(stolen)), LeaseMismatch)


@case("L5")
def half_a_token_proves_nothing(h: Harness) -> None:
    held = h.held()
    with h.unchanged():
        for token in ("", held.lease.token[:-1], held.lease.token + "0", held.lease.token.upper() + " "):
            refused(h.settle(Ack(replace(held.lease, token=token))), LeaseMismatch)


@case("L5", "L4")
def only_the_token_proves_a_lease(h: Harness) -> None:
    held = h.held()
    h.settled(Ack(replace(held.lease, fence=held.lease.fence + 1, expires_at=0)))


@case("L5", "L7")
def the_holder_of_an_expired_lease_cannot_touch_the_next_attempt(h: Harness) -> None:
    stale = h.held()
    h.advance(LEASE)
    current = h.take()
    with h.unchanged():
        for make in VERBS.values():
            refused(h.settle(make(stale.lease)), LeaseMismatch)
    h.settled(Ack(current.lease))


@case("L5")
def a_batch_takes_any_mix_of_verbs(h: Harness) -> None:
    acked, retried, failed, released = (h.held() for _ in range(4))
    h.settled(Retry(retried.lease), Ack(acked.lease), Release(released.lease), Fail(failed.lease, reason="no"))
    states = [h.state(held.job.id) for held in (acked, retried, failed, released)]
    equal(states, [State.DONE, State.READY, State.DEAD, State.READY], "the states")


@case("L5")
def one_bad_item_spoils_no_other_and_answers_keep_their_order(h: Harness) -> None:
    good, other, bad, late = h.held(), h.held(), h.held(), h.held(lease_for=1)
    unknown = replace(bad.lease, job_id="unknown")
    h.advance(1)
    answers = h.settle(
        Ack(good.lease),
        Ack(replace(bad.lease, token="1.0")),
        Retry(unknown),
        Fail(late.lease, reason="no"),
        Ack(other.lease),
    )
    refused(answers, None, LeaseMismatch, JobNotInflight, LeaseExpired, None)
    states = [h.state(held.job.id) for held in (good, other, bad, late)]
    equal(states, [State.DONE, State.DONE, State.INFLIGHT, State.INFLIGHT], "the states")


@case("L5", "L6")
def the_same_ack_twice_in_one_batch_is_accepted_twice_and_done_once(h: Harness) -> None:
    held = h.held()
    h.settled(Ack(held.lease), Ack(held.lease))
    equal(h.state(held.job.id), State.DONE, "the state")
    assert len(h.ledger()) <= 1, f"wanted one ledger row, got {len(h.ledger())}"


@case("L5", "L6")
def two_verbs_for_one_lease_in_one_batch_let_the_first_win(h: Harness) -> None:
    held = h.held()
    refused(h.settle(Ack(held.lease), Retry(held.lease)), None, JobNotInflight)
    equal(h.state(held.job.id), State.DONE, "the state")
    held = h.held()
    refused(h.settle(Retry(held.lease), Ack(held.lease)), None, JobNotInflight)
    equal(h.state(held.job.id), State.READY, "the state")


@case("L5", "L9")
def an_error_text_that_no_encoding_holds_spoils_nothing(h: Harness) -> None:
    """File names that are not UTF-8 reach error texts as lone surrogates."""
    good, bad = h.held(), h.held()
    text = "no such file: caf\udce9"
    h.settled(Ack(good.lease), Fail(bad.lease, reason=text, error=text, detail=text))
    equal((h.state(good.job.id), h.state(bad.job.id)), (State.DONE, State.DEAD), "the states")
    assert "no such file" in h.get(bad.job.id).last_error, "wanted the readable part of the error kept"


@case("L5")
def an_empty_settle_is_answered_with_nothing(h: Harness) -> None:
    equal(h.settle(), [], "the answers")


@case("L5")
def anything_but_a_settlement_is_refused_and_settles_nothing(h: Harness) -> None:
    held = h.held()
    with h.unchanged(), raising(InvalidInput):
        h.store.settle([Ack(held.lease), held.lease], now=h.stamp)  # type: ignore[list-item]


@case("L5")
def a_settle_beyond_the_bound_is_refused_whole(h: Harness) -> None:
    held = h.held()
    with h.unchanged(), raising(InvalidInput):
        h.settle(*[Ack(held.lease)] * (bounds.MAX_BATCH_ITEMS + 1))


@case("L5", "L3")
def any_connection_may_settle_with_the_token(h: Harness) -> None:
    held = h.held()
    equal(h.another().settle([Ack(held.lease)], now=h.stamp), [None], "the answer to another connection")
    equal(h.state(held.job.id), State.DONE, "the state")
