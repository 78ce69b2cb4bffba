"""Keeping a lease (L4, L5)."""

from __future__ import annotations

from dataclasses import replace

from holdfast.clock import SECOND
from holdfast.drivers.contract import Feature
from holdfast.errors import JobNotInflight, LeaseError, LeaseExpired, LeaseMismatch
from holdfast.model.lease import Lease, Note
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, refused, representatives
from holdfast.testing.drivers.harness import LEASE, Harness

NOTES = {Feature.NOTES}


@case("L4", "L5")
def an_extend_moves_the_end_and_keeps_the_token(h: Harness) -> None:
    held = h.held()
    h.advance(SECOND)
    longer = h.extended(held.lease, lease_for=2 * LEASE)
    equal(longer, replace(held.lease, expires_at=h.now + 2 * LEASE), "the extended lease")
    equal(h.inspect(held.job.id).expires_at, longer.expires_at, "the stored expires_at")


@case("L5")
def an_extend_may_shorten_a_lease(h: Harness) -> None:
    held = h.held()
    shorter = h.extended(held.lease, lease_for=5)
    equal(shorter.expires_at, h.now + 5, "expires_at")
    h.advance(4)
    equal(h.reap(), 0, "reaped before the new end")
    h.advance(1)
    equal(h.reap(), 1, "reaped at the new end")


@case("L2", "L5")
def an_extended_lease_outlives_its_old_end(h: Harness) -> None:
    held = h.held()
    h.advance_to(held.lease.expires_at - 1)
    longer = h.extended(held.lease)
    h.advance_to(held.lease.expires_at + 1)
    equal((h.reap(), h.reserve(5)), (0, []), "reaped and reserved after the old end")
    h.advance_to(longer.expires_at)
    equal(h.reap(), 1, "reaped at the new end")


@case("L5")
def a_lease_can_be_extended_again_and_again(h: Harness) -> None:
    lease = h.held().lease
    for _ in range(5):
        h.advance(LEASE - 1)
        lease = h.extended(lease)
    h.settled(Ack(lease))


@case("L4")
def the_lease_from_before_an_extend_still_proves_ownership(h: Harness) -> None:
    held = h.held()
    h.advance(LEASE - 1)
    h.extended(held.lease)
    h.advance(LEASE - 1)
    h.settled(Ack(held.lease))


@case("L7", "L13")
def an_extend_counts_no_attempt_and_writes_no_ledger(h: Harness) -> None:
    held = h.held()
    h.extended(held.lease)
    equal(h.get(held.job.id), held.job, "the job")
    equal(h.ledger(), [], "the ledger")


@case("L5")
def an_extend_of_an_unknown_job_is_refused(h: Harness) -> None:
    [answer] = h.extend(Lease(job_id="unknown", token="1.0", fence=1, expires_at=h.now + LEASE))
    assert isinstance(answer, JobNotInflight), f"wanted JobNotInflight, got {answer!r}"
    equal((answer.job_id, answer.state), ("unknown", None), "its facts")


@case("L5")
def an_extend_of_a_waiting_job_is_refused_and_changes_nothing(h: Harness) -> None:
    held = h.held()
    h.settled(Retry(held.lease))
    with h.unchanged():
        [answer] = h.extend(held.lease)
    assert isinstance(answer, JobNotInflight), f"wanted JobNotInflight, got {answer!r}"
    equal(answer.state, "ready", "the state it tells")


@case("L5")
def an_extend_of_an_ended_job_is_refused_and_changes_nothing(h: Harness) -> None:
    for settle, state in ((Ack, "done"), (lambda lease: Fail(lease, reason="no"), "dead")):
        held = h.held()
        h.settled(settle(held.lease))
        with h.unchanged():
            [answer] = h.extend(held.lease)
        assert isinstance(answer, JobNotInflight), f"wanted JobNotInflight, got {answer!r}"
        equal(answer.state, state, "the state it tells")


@case("L5")
def an_extend_with_another_token_is_refused_and_changes_nothing(h: Harness) -> None:
    held = h.held()
    h.settled(Release(held.lease))
    h.take()
    with h.unchanged():
        refused(h.extend(held.lease), LeaseMismatch)


@case("L5", "L2")
def an_expired_lease_is_never_revived(h: Harness) -> None:
    for offset in (0, 1):
        held = h.held(queue=f"at{offset}")
        h.advance_to(held.lease.expires_at + offset)
        with h.unchanged():
            [answer] = h.extend(held.lease)
        assert isinstance(answer, LeaseExpired), f"wanted LeaseExpired at {offset:+} µs, got {answer!r}"
        equal((answer.expires_at, answer.now), (held.lease.expires_at, h.now), "its facts")


@case("L5")
def another_token_is_told_before_the_expiry(h: Harness) -> None:
    held = h.held()
    h.advance(LEASE)
    refused(h.extend(replace(held.lease, token="1.0")), LeaseMismatch)


@case("L5")
def not_in_flight_is_told_before_another_token(h: Harness) -> None:
    held = h.held()
    h.settled(Ack(held.lease))
    h.advance(LEASE)
    refused(h.extend(replace(held.lease, token="1.0")), JobNotInflight)


@case("L5")
def one_bad_lease_spoils_no_other_and_answers_keep_their_order(h: Harness) -> None:
    jobs = [h.held() for _ in range(3)]
    bad = replace(jobs[1].lease, token="1.0")
    unknown = replace(jobs[1].lease, job_id="unknown")
    h.advance(SECOND)
    answers = h.extend(jobs[0].lease, bad, unknown, jobs[2].lease)
    equal(representatives(answers), [Lease, LeaseMismatch, JobNotInflight, Lease], "the answers")
    ends = [h.inspect(held.job.id).expires_at for held in jobs]
    equal(ends, [h.now + LEASE, jobs[1].lease.expires_at, h.now + LEASE], "the ends of the leases")
    told = [answer.job_id for answer in answers if isinstance(answer, LeaseError | Lease)]
    equal(told, [jobs[0].job.id, jobs[1].job.id, "unknown", jobs[2].job.id], "the jobs of the answers")


@case("L5")
def a_lease_twice_in_one_batch_is_extended_twice(h: Harness) -> None:
    held = h.held()
    equal(representatives(h.extend(held.lease, held.lease)), [Lease, Lease], "the answers")


@case("L5")
def an_empty_extend_is_answered_with_nothing(h: Harness) -> None:
    equal(h.extend(), [], "the answers")


@case("L9", needs=NOTES)
def notes_are_kept_with_the_job(h: Harness) -> None:
    held = h.held()
    h.extended(held.lease, note=Note(started_at=h.now, progress=b"50%", checkpoint=b"\x00\xff"))
    wanted = Note(started_at=h.now, progress=b"50%", checkpoint=b"\x00\xff")
    equal(h.inspect(held.job.id).note, wanted, "the note")


@case("L9", needs=NOTES)
def what_a_note_leaves_out_stays_as_it_was(h: Harness) -> None:
    held = h.held()
    began = h.now
    h.extended(held.lease, note=Note(started_at=began, progress=b"1", checkpoint=b"a"))
    h.extended(held.lease)
    h.extended(held.lease, note=Note(progress=b"2"))
    equal(h.inspect(held.job.id).note, Note(started_at=began, progress=b"2", checkpoint=b"a"), "the note")


@case("L9", needs=NOTES)
def a_note_belongs_to_the_job_it_names(h: Harness) -> None:
    first, second = h.held(), h.held()
    h.store.extend(
        [first.lease, second.lease],
        lease_for=LEASE,
        notes={second.job.id: Note(progress=b"2"), "unknown": Note(progress=b"3")},
        now=h.stamp,
    )
    equal(h.inspect(first.job.id).note, None, "the note of the first")
    equal(h.inspect(second.job.id).note, Note(progress=b"2"), "the note of the second")


@case("L5", needs=NOTES)
def the_note_of_a_refused_extend_is_not_kept(h: Harness) -> None:
    held = h.held()
    h.advance(LEASE)
    with h.unchanged():
        h.extend(held.lease, notes={held.job.id: Note(checkpoint=b"stale")})
    equal(h.take().checkpoint, None, "the checkpoint")


@case("L9", needs=NOTES)
def a_checkpoint_reaches_the_attempt_after_a_retry(h: Harness) -> None:
    held = h.held()
    h.extended(held.lease, note=Note(progress=b"p", checkpoint=b"here"))
    h.settled(Retry(held.lease))
    equal(h.take().checkpoint, b"here", "the checkpoint")
    note = h.inspect(held.job.id).note
    assert note is not None, "wanted the note kept"
    equal(note.progress, b"p", "the progress")


@case("L9", needs=NOTES)
def a_checkpoint_reaches_the_attempt_after_an_expired_lease(h: Harness) -> None:
    held = h.held()
    h.extended(held.lease, note=Note(checkpoint=b"here"))
    h.advance(LEASE)
    equal(h.take().checkpoint, b"here", "the checkpoint")


@case("L9", needs=NOTES)
def a_checkpoint_reaches_the_attempt_after_a_release(h: Harness) -> None:
    held = h.held()
    h.extended(held.lease, note=Note(checkpoint=b"here"))
    h.settled(Release(held.lease))
    equal(h.take().checkpoint, b"here", "the checkpoint")


@case("L9", needs=NOTES)
def a_checkpoint_reaches_the_attempt_after_a_requeue(h: Harness) -> None:
    held = h.held()
    h.extended(held.lease, note=Note(checkpoint=b"here"))
    h.settled(Fail(held.lease, reason="no"))
    h.requeue(held.job.id)
    equal(h.take().checkpoint, b"here", "the checkpoint")


@case("L13", needs=NOTES | {Feature.LEDGER})
def when_a_run_began_is_in_the_ledger_though_its_worker_died(h: Harness) -> None:
    held = h.held()
    began = h.now + 5
    h.extended(held.lease, note=Note(started_at=began))
    h.lapse()
    equal([row.started_at for row in h.ledger()], [began], "started_at")


@case("L13", needs=NOTES | {Feature.LEDGER})
def when_one_run_began_says_nothing_of_the_next(h: Harness) -> None:
    held = h.held()
    h.extended(held.lease, note=Note(started_at=h.now))
    h.settled(Retry(held.lease))
    h.settled(Ack(h.take().lease))
    equal([row.started_at for row in h.ledger()], [h.now, None], "started_at")
