"""Settle leases: the effect of each verb, and when a settlement is refused (L5)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.errors import InvalidInput, JobNotInflight, LeaseExpired, LeaseMismatch
from holdfast.model import bounds
from holdfast.model.job import State
from holdfast.model.lease import Lease
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.testing.drivers.conformance.assertions import assert_answers, assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, Harness

SETTLEMENTS: dict[str, Callable[[Lease], Settlement]] = {
    "ack": lambda lease: Ack(lease, detail="late"),
    "retry": lambda lease: Retry(lease, error="late"),
    "fail": lambda lease: Fail(lease, reason="late"),
    "release": Release,
}


@case("L5", needs={Feature.RESULT})
def an_ack_makes_the_job_done_and_stores_its_result(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(SECOND)
    h.must_settle(Ack(reservation.lease, result=b"\x00result"))
    assert_equal(h.get(reservation.job.id), replace(reservation.job, state=State.DONE, result=b"\x00result"), "the job")
    assert_equal(h.inspect(reservation.job.id).ended_at, h.now, "ended_at")
    h.advance(2 * LEASE)
    assert_equal((h.reap(), h.reserve(5)), (0, []), "reaped and reserved afterwards")


@case("L5")
def an_ack_needs_no_result(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Ack(reservation.lease))
    assert_equal(h.get(reservation.job.id).result, None, "the result")


@case("L5", "L9")
def a_fail_makes_a_dead_letter_with_reason_and_error(h: Harness) -> None:
    reservation = h.reserve_new_job(meta={"a": 1}, payload=b"whole")
    h.advance(SECOND)
    h.must_settle(Fail(reservation.lease, reason="bad payload", error="ValueError: ü"))
    wanted = replace(
        reservation.job,
        state=State.DEAD,
        last_error="ValueError: ü",
        failed_at=h.now,
        dead_reason="bad payload",
        dead_at=h.now,
    )
    assert_equal(h.get(reservation.job.id), wanted, "the dead letter")
    assert_equal(h.inspect(reservation.job.id).ended_at, h.now, "ended_at")
    h.advance(2 * LEASE)
    assert_equal((h.reap(), h.reserve(5)), (0, []), "reaped and reserved afterwards")


@case("L5")
def a_settlement_of_an_unknown_job_is_refused(h: Harness) -> None:
    lease = Lease(job_id="unknown", token="1.0", fence=1, expires_at=h.now + LEASE)
    for verb, make in SETTLEMENTS.items():
        [answer] = h.settle(make(lease))
        assert isinstance(answer, JobNotInflight), f"{verb}: wanted JobNotInflight, got {answer!r}"
        assert_equal((answer.job_id, answer.state), ("unknown", None), f"the facts of the refused {verb}")


@case("L5")
def a_settlement_of_a_job_that_was_never_reserved_is_refused(h: Harness) -> None:
    job = h.enqueue_job()
    lease = Lease(job_id=job.id, token="1.0", fence=1, expires_at=h.now + LEASE)
    with h.assert_unchanged():
        for make in SETTLEMENTS.values():
            assert_answers(h.settle(make(lease)), JobNotInflight)


def _refused_with_another_token(h: Harness, verb: str) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Retry(reservation.lease))
    h.reserve_one()
    with h.assert_unchanged():
        assert_answers(h.settle(SETTLEMENTS[verb](reservation.lease)), LeaseMismatch)


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
        reservation = h.reserve_new_job(queue=f"at{offset}")
        h.advance_to(reservation.lease.expires_at + offset)
        if offset < 0:
            h.must_settle(SETTLEMENTS[verb](reservation.lease))
            continue
        with h.assert_unchanged():
            [answer] = h.settle(SETTLEMENTS[verb](reservation.lease))
        assert isinstance(answer, LeaseExpired), f"{verb} at {offset:+} µs: wanted LeaseExpired, got {answer!r}"
        assert_equal(
            (answer.expires_at, answer.now), (reservation.lease.expires_at, h.now), "the attributes of the error"
        )


@case("L5", "L2")
def an_ack_is_refused_from_expires_at_on(h: Harness) -> None:
    _refused_when_expired(h, "ack")


@case("L5", "L2")
def a_retry_is_refused_from_expires_at_on(h: Harness) -> None:
    _refused_when_expired(h, "retry")


@case("L5", "L2")
def a_fail_is_refused_from_expires_at_on(h: Harness) -> None:
    _refused_when_expired(h, "fail")


@case("L5", "L2")
def a_release_is_refused_from_expires_at_on(h: Harness) -> None:
    _refused_when_expired(h, "release")


@case("L5")
def a_wrong_token_is_reported_before_the_expiry(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(LEASE)
    with h.assert_unchanged():
        for make in SETTLEMENTS.values():
            assert_answers(h.settle(make(replace(reservation.lease, token="1.0"))), LeaseMismatch)


@case("L5")
def not_in_flight_is_reported_before_a_wrong_token_and_the_expiry(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Fail(reservation.lease, reason="no"))
    h.advance(LEASE)
    with h.assert_unchanged():
        for make in SETTLEMENTS.values():
            [answer] = h.settle(make(replace(reservation.lease, token="1.0")))
            assert isinstance(answer, JobNotInflight), f"wanted JobNotInflight, got {answer!r}"
            assert_equal(answer.state, "dead", "the state in the error")


@case("L5")
def the_token_of_one_job_cannot_settle_another_job(h: Harness) -> None:
    first, second = h.reserve_new_job(), h.reserve_new_job()
    stolen = replace(first.lease, job_id=second.job.id)
    with h.assert_unchanged():
        for make in SETTLEMENTS.values():
            assert_answers(h.settle(make(stolen)), LeaseMismatch)


@case("L5")
def an_incomplete_token_is_refused(h: Harness) -> None:
    reservation = h.reserve_new_job()
    with h.assert_unchanged():
        for token in (
            "",
            reservation.lease.token[:-1],
            reservation.lease.token + "0",
            reservation.lease.token.upper() + " ",
        ):
            assert_answers(h.settle(Ack(replace(reservation.lease, token=token))), LeaseMismatch)


@case("L5", "L4")
def the_fence_and_expires_at_of_the_callers_lease_are_ignored(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Ack(replace(reservation.lease, fence=reservation.lease.fence + 1, expires_at=0)))


@case("L5", "L7")
def a_stale_worker_cannot_settle_the_next_attempt(h: Harness) -> None:
    stale = h.reserve_new_job()
    h.advance(LEASE)
    current = h.reserve_one()
    with h.assert_unchanged():
        for make in SETTLEMENTS.values():
            assert_answers(h.settle(make(stale.lease)), LeaseMismatch)
    h.must_settle(Ack(current.lease))


@case("L5")
def a_batch_may_mix_acks_retries_fails_and_releases(h: Harness) -> None:
    acked, retried, failed, released = (h.reserve_new_job() for _ in range(4))
    h.must_settle(Retry(retried.lease), Ack(acked.lease), Release(released.lease), Fail(failed.lease, reason="no"))
    states = [h.state(reservation.job.id) for reservation in (acked, retried, failed, released)]
    assert_equal(states, [State.DONE, State.READY, State.DEAD, State.READY], "the states")


@case("L5")
def one_refused_settlement_does_not_affect_the_others_and_answers_keep_their_order(h: Harness) -> None:
    good, other, bad, late = (
        h.reserve_new_job(),
        h.reserve_new_job(),
        h.reserve_new_job(),
        h.reserve_new_job(lease_for=1),
    )
    unknown = replace(bad.lease, job_id="unknown")
    h.advance(1)
    answers = h.settle(
        Ack(good.lease),
        Ack(replace(bad.lease, token="1.0")),
        Retry(unknown),
        Fail(late.lease, reason="no"),
        Ack(other.lease),
    )
    assert_answers(answers, None, LeaseMismatch, JobNotInflight, LeaseExpired, None)
    states = [h.state(reservation.job.id) for reservation in (good, other, bad, late)]
    assert_equal(states, [State.DONE, State.DONE, State.INFLIGHT, State.INFLIGHT], "the states")


@case("L5", "L6")
def an_ack_that_appears_twice_in_a_batch_is_accepted_twice_and_applied_once(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Ack(reservation.lease), Ack(reservation.lease))
    assert_equal(h.state(reservation.job.id), State.DONE, "the state")
    assert len(h.ledger()) <= 1, f"wanted one ledger row, got {len(h.ledger())}"


@case("L5", "L6")
def of_two_settlements_for_one_lease_in_a_batch_the_first_wins(h: Harness) -> None:
    reservation = h.reserve_new_job()
    assert_answers(h.settle(Ack(reservation.lease), Retry(reservation.lease)), None, JobNotInflight)
    assert_equal(h.state(reservation.job.id), State.DONE, "the state")
    reservation = h.reserve_new_job()
    assert_answers(h.settle(Retry(reservation.lease), Ack(reservation.lease)), None, JobNotInflight)
    assert_equal(h.state(reservation.job.id), State.READY, "the state")


@case("L5", "L9")
def an_error_text_that_is_not_valid_unicode_does_not_fail_the_batch(h: Harness) -> None:
    """File names that are not UTF-8 reach error texts as lone surrogates."""
    good, bad = h.reserve_new_job(), h.reserve_new_job()
    text = "no such file: caf\udce9"
    h.must_settle(Ack(good.lease), Fail(bad.lease, reason=text, error=text, detail=text))
    assert_equal((h.state(good.job.id), h.state(bad.job.id)), (State.DONE, State.DEAD), "the states")
    assert "no such file" in h.get(bad.job.id).last_error, "wanted the readable part of the error kept"


@case("L5")
def an_empty_settle_returns_an_empty_list(h: Harness) -> None:
    assert_equal(h.settle(), [], "the answers")


@case("L5")
def a_batch_with_something_other_than_settlements_is_refused(h: Harness) -> None:
    reservation = h.reserve_new_job()
    with h.assert_unchanged(), assert_raises(InvalidInput):
        h.store.settle([Ack(reservation.lease), reservation.lease], now=h.now_or_none)  # type: ignore[list-item]


@case("L5")
def a_settle_batch_that_is_too_large_is_refused(h: Harness) -> None:
    reservation = h.reserve_new_job()
    with h.assert_unchanged(), assert_raises(InvalidInput):
        h.settle(*[Ack(reservation.lease)] * (bounds.MAX_BATCH_ITEMS + 1))


@case("L5", "L3")
def another_connection_can_settle_with_the_token(h: Harness) -> None:
    reservation = h.reserve_new_job()
    assert_equal(
        h.connect_again().settle([Ack(reservation.lease)], now=h.now_or_none),
        [None],
        "the answer to another connection",
    )
    assert_equal(h.state(reservation.job.id), State.DONE, "the state")
