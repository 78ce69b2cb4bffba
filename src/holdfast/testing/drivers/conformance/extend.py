"""Extend leases and store notes (L4, L5)."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Extend
from holdfast.errors import JobNotInflight, LeaseError, LeaseExpired, LeaseMismatch
from holdfast.model.lease import Lease, Note
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.assertions import answer_types, assert_answers, assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, Harness

NOTES = {Feature.NOTES}


@case("L4", "L5")
def an_extend_moves_expires_at_and_keeps_the_token(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(SECOND)
    longer = h.must_extend(reservation.lease, lease_for=2 * LEASE)
    assert_equal(longer, replace(reservation.lease, expires_at=h.now + 2 * LEASE), "the extended lease")
    assert_equal(h.inspect(reservation.job.id).expires_at, longer.expires_at, "the stored expires_at")


@case("L5")
def an_extend_may_shorten_a_lease(h: Harness) -> None:
    reservation = h.reserve_new_job()
    shorter = h.must_extend(reservation.lease, lease_for=5)
    assert_equal(shorter.expires_at, h.now + 5, "expires_at")
    h.advance(4)
    assert_equal(h.reap(), 0, "reaped before the new end")
    h.advance(1)
    assert_equal(h.reap(), 1, "reaped at the new end")


@case("L2", "L5")
def an_extended_lease_is_valid_after_its_old_expires_at(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance_to(reservation.lease.expires_at - 1)
    longer = h.must_extend(reservation.lease)
    h.advance_to(reservation.lease.expires_at + 1)
    assert_equal((h.reap(), h.reserve(5)), (0, []), "reaped and reserved after the old end")
    h.advance_to(longer.expires_at)
    assert_equal(h.reap(), 1, "reaped at the new end")


@case("L5")
def a_lease_can_be_extended_many_times(h: Harness) -> None:
    lease = h.reserve_new_job().lease
    for _ in range(5):
        h.advance(LEASE - 1)
        lease = h.must_extend(lease)
    h.must_settle(Ack(lease))


@case("L4")
def the_lease_from_before_an_extend_can_still_be_settled(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(LEASE - 1)
    h.must_extend(reservation.lease)
    h.advance(LEASE - 1)
    h.must_settle(Ack(reservation.lease))


@case("L7", "L13")
def an_extend_counts_no_attempt_and_writes_no_ledger_row(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_extend(reservation.lease)
    assert_equal(h.get(reservation.job.id), reservation.job, "the job")
    assert_equal(h.ledger(), [], "the ledger")


@case("L5")
def an_extend_of_an_unknown_job_is_refused(h: Harness) -> None:
    [answer] = h.extend(Lease(job_id="unknown", token="1.0", fence=1, expires_at=h.now + LEASE))
    assert isinstance(answer, JobNotInflight), f"wanted JobNotInflight, got {answer!r}"
    assert_equal((answer.job_id, answer.state), ("unknown", None), "the attributes of the error")


@case("L5")
def an_extend_of_a_ready_job_is_refused_and_changes_nothing(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Retry(reservation.lease))
    with h.assert_unchanged():
        [answer] = h.extend(reservation.lease)
    assert isinstance(answer, JobNotInflight), f"wanted JobNotInflight, got {answer!r}"
    assert_equal(answer.state, "ready", "the state in the error")


@case("L5")
def an_extend_of_an_ended_job_is_refused_and_changes_nothing(h: Harness) -> None:
    for settle, state in ((Ack, "done"), (lambda lease: Fail(lease, reason="no"), "dead")):
        reservation = h.reserve_new_job()
        h.must_settle(settle(reservation.lease))
        with h.assert_unchanged():
            [answer] = h.extend(reservation.lease)
        assert isinstance(answer, JobNotInflight), f"wanted JobNotInflight, got {answer!r}"
        assert_equal(answer.state, state, "the state in the error")


@case("L5")
def an_extend_with_another_token_is_refused_and_changes_nothing(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Release(reservation.lease))
    h.reserve_one()
    with h.assert_unchanged():
        assert_answers(h.extend(reservation.lease), LeaseMismatch)


@case("L5", "L2")
def an_extend_of_an_expired_lease_is_refused_and_changes_nothing(h: Harness) -> None:
    for offset in (0, 1):
        reservation = h.reserve_new_job(queue=f"at{offset}")
        h.advance_to(reservation.lease.expires_at + offset)
        with h.assert_unchanged():
            [answer] = h.extend(reservation.lease)
        assert isinstance(answer, LeaseExpired), f"wanted LeaseExpired at {offset:+} µs, got {answer!r}"
        assert_equal(
            (answer.expires_at, answer.now), (reservation.lease.expires_at, h.now), "the attributes of the error"
        )


@case("L5")
def a_wrong_token_is_reported_before_the_expiry(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(LEASE)
    assert_answers(h.extend(replace(reservation.lease, token="1.0")), LeaseMismatch)


@case("L5")
def not_in_flight_is_reported_before_a_wrong_token(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Ack(reservation.lease))
    h.advance(LEASE)
    assert_answers(h.extend(replace(reservation.lease, token="1.0")), JobNotInflight)


@case("L5")
def one_refused_lease_does_not_affect_the_others_and_answers_keep_their_order(h: Harness) -> None:
    jobs = [h.reserve_new_job() for _ in range(3)]
    bad = replace(jobs[1].lease, token="1.0")
    unknown = replace(jobs[1].lease, job_id="unknown")
    h.advance(SECOND)
    answers = h.extend(jobs[0].lease, bad, unknown, jobs[2].lease)
    assert_equal(answer_types(answers), [Lease, LeaseMismatch, JobNotInflight, Lease], "the answers")
    expiries = [h.inspect(reservation.job.id).expires_at for reservation in jobs]
    assert_equal(expiries, [h.now + LEASE, jobs[1].lease.expires_at, h.now + LEASE], "the expiries of the leases")
    answered_ids = [answer.job_id for answer in answers if isinstance(answer, LeaseError | Lease)]
    assert_equal(answered_ids, [jobs[0].job.id, jobs[1].job.id, "unknown", jobs[2].job.id], "the jobs of the answers")


@case("L5")
def a_lease_that_appears_twice_in_a_batch_is_extended_twice(h: Harness) -> None:
    reservation = h.reserve_new_job()
    assert_equal(answer_types(h.extend(reservation.lease, reservation.lease)), [Lease, Lease], "the answers")


@case("L5")
def an_empty_extend_returns_an_empty_list(h: Harness) -> None:
    assert_equal(h.extend(), [], "the answers")


@case("L9", needs=NOTES)
def notes_are_stored_with_the_job(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_extend(reservation.lease, note=Note(started_at=h.now, progress=b"50%", checkpoint=b"\x00\xff"))
    wanted = Note(started_at=h.now, progress=b"50%", checkpoint=b"\x00\xff")
    assert_equal(h.inspect(reservation.job.id).note, wanted, "the note")


@case("L9", needs=NOTES)
def a_field_that_a_note_omits_stays_unchanged(h: Harness) -> None:
    reservation = h.reserve_new_job()
    started_at = h.now
    h.must_extend(reservation.lease, note=Note(started_at=started_at, progress=b"1", checkpoint=b"a"))
    h.must_extend(reservation.lease)
    h.must_extend(reservation.lease, note=Note(progress=b"2"))
    assert_equal(
        h.inspect(reservation.job.id).note, Note(started_at=started_at, progress=b"2", checkpoint=b"a"), "the note"
    )


@case("L9", needs=NOTES)
def a_note_belongs_to_the_job_it_names(h: Harness) -> None:
    first, second = h.reserve_new_job(), h.reserve_new_job()
    h.store.do(
        Extend(
            leases=[first.lease, second.lease],
            lease_for=LEASE,
            notes={second.job.id: Note(progress=b"2"), "unknown": Note(progress=b"3")},
            now=h.now_or_none,
        )
    )
    assert_equal(h.inspect(first.job.id).note, None, "the note of the first")
    assert_equal(h.inspect(second.job.id).note, Note(progress=b"2"), "the note of the second")


@case("L5", needs=NOTES)
def the_note_of_a_refused_extend_is_not_stored(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(LEASE)
    with h.assert_unchanged():
        h.extend(reservation.lease, notes={reservation.job.id: Note(checkpoint=b"stale")})
    again = h.reserve_one()
    assert_equal(again.checkpoint, None, "the checkpoint")
    h.must_extend(again.lease, note=Note(progress=b"1"))
    assert_equal(h.inspect(again.job.id).note, Note(progress=b"1"), "the note after that of a valid lease")


@case("L9", needs=NOTES)
def the_attempt_after_a_retry_gets_the_checkpoint(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_extend(reservation.lease, note=Note(progress=b"p", checkpoint=b"here"))
    h.must_settle(Retry(reservation.lease))
    assert_equal(h.reserve_one().checkpoint, b"here", "the checkpoint")
    note = h.inspect(reservation.job.id).note
    assert note is not None, "wanted the note stored"
    assert_equal(note.progress, b"p", "the progress")


@case("L9", needs=NOTES)
def the_attempt_after_an_expired_lease_gets_the_checkpoint(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_extend(reservation.lease, note=Note(checkpoint=b"here"))
    h.advance(LEASE)
    assert_equal(h.reserve_one().checkpoint, b"here", "the checkpoint")


@case("L9", needs=NOTES)
def the_attempt_after_a_release_gets_the_checkpoint(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_extend(reservation.lease, note=Note(checkpoint=b"here"))
    h.must_settle(Release(reservation.lease))
    assert_equal(h.reserve_one().checkpoint, b"here", "the checkpoint")


@case("L9", needs=NOTES | {Feature.JOBS})
def the_attempt_after_a_requeue_gets_the_checkpoint(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_extend(reservation.lease, note=Note(checkpoint=b"here"))
    h.must_settle(Fail(reservation.lease, reason="no"))
    h.requeue(reservation.job.id)
    assert_equal(h.reserve_one().checkpoint, b"here", "the checkpoint")


@case("L13", needs=NOTES | {Feature.LEDGER})
def the_ledger_row_of_an_expired_lease_has_the_started_at_of_its_note(h: Harness) -> None:
    reservation = h.reserve_new_job()
    started_at = h.now + 5
    h.must_extend(reservation.lease, note=Note(started_at=started_at))
    h.expire_leases()
    assert_equal([row.started_at for row in h.ledger()], [started_at], "started_at")


@case("L13", needs=NOTES | {Feature.LEDGER})
def the_started_at_of_one_attempt_is_not_used_for_the_next(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_extend(reservation.lease, note=Note(started_at=h.now))
    h.must_settle(Retry(reservation.lease))
    h.must_settle(Ack(h.reserve_one().lease))
    assert_equal([row.started_at for row in h.ledger()], [h.now, None], "started_at")
