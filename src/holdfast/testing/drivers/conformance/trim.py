"""Retention."""

from __future__ import annotations

from holdfast.clock import DAY, SECOND
from holdfast.drivers.contract import Feature, QueueSettings, Trimmed
from holdfast.errors import InvalidInput, JobNotInflight, LedgerTrimmed
from holdfast.model import ledger_reader
from holdfast.model.job import State
from holdfast.model.lease import Enqueued
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Fail
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, raising, refused
from holdfast.testing.drivers.harness import QUEUE, Harness


def _done(h: Harness) -> str:
    held = h.held()
    h.settled(Ack(held.lease))
    return held.job.id


def _trim(h: Harness, *, ended_for: int = 7 * DAY, ledger_for: int = 30 * DAY, limit: int = 10_000) -> Trimmed:
    return h.store.trim(ended_for=ended_for, ledger_for=ledger_for, limit=limit, now=h.stamp)


@case("L6", "L2")
def done_jobs_are_forgotten_when_they_are_old_enough(h: Harness) -> None:
    job_id = _done(h)
    ended_at = h.now
    h.advance_to(ended_at + 7 * DAY - 1)
    equal(_trim(h).jobs, 0, "jobs trimmed a microsecond early")
    equal(h.state(job_id), State.DONE, "the state")
    h.advance_to(ended_at + 7 * DAY)
    equal(_trim(h).jobs, 1, "jobs trimmed in time")
    equal(h.store.get(job_id), None, "the job")


@case("L6")
def cancelled_jobs_are_forgotten_too(h: Harness) -> None:
    job = h.put()
    h.cancel(job.id)
    h.advance(7 * DAY)
    equal(_trim(h).jobs, 1, "jobs trimmed")
    equal(h.store.get(job.id), None, "the job")


@case("L9")
def dead_letters_are_never_trimmed(h: Harness) -> None:
    held = h.held()
    h.settled(Fail(held.lease, reason="no"))
    h.advance(10_000 * DAY)
    equal(_trim(h, ended_for=DAY).jobs, 0, "jobs trimmed")
    equal(h.state(held.job.id), State.DEAD, "the state")
    equal(h.requeue(held.job.id), [True], "requeued")


@case("L9")
def jobs_that_have_not_ended_are_never_trimmed(h: Harness) -> None:
    running, waiting = h.held(lease_for=1000 * DAY), h.put()
    h.advance(900 * DAY)
    equal(_trim(h, ended_for=DAY).jobs, 0, "jobs trimmed")
    h.settled(Ack(running.lease))
    equal(h.state(waiting.id), State.READY, "the state")


@case("L9")
def a_requeued_job_is_not_trimmed_for_its_old_ending(h: Harness) -> None:
    job = h.put()
    h.cancel(job.id)
    h.requeue(job.id)
    h.advance(30 * DAY)
    equal(_trim(h).jobs, 0, "jobs trimmed")
    equal(h.taken(), [job.id], "reserved")


@case("L6")
def ended_jobs_are_kept_for_at_least_a_day(h: Harness) -> None:
    for wrong in (DAY - 1, 0, -1):
        with raising(InvalidInput, f"ended_for={wrong}"):
            _trim(h, ended_for=wrong)


@case("L6")
def a_trimmed_job_can_no_longer_be_settled_again(h: Harness) -> None:
    held = h.held()
    h.settled(Ack(held.lease))
    h.advance(DAY)
    _trim(h, ended_for=DAY)
    refused(h.settle(Ack(held.lease)), JobNotInflight)


@case("L6")
def a_trimmed_id_may_come_again(h: Harness) -> None:
    job_id = _done(h)
    h.advance(7 * DAY)
    _trim(h)
    equal(h.enqueue(h.job(id=job_id)), [Enqueued(id=job_id, existed=False)], "the answer")


@case("L13", needs={Feature.LEDGER})
def ledger_rows_are_trimmed_by_their_age(h: Harness) -> None:
    _done(h)
    h.advance(SECOND)
    young = _done(h)
    h.advance(DAY - SECOND)
    equal(_trim(h, ledger_for=DAY).ledger, 1, "rows trimmed")
    equal([row.job_id for row in h.ledger()], [young], "the rows kept")


@case("L13", needs={Feature.LEDGER})
def a_reader_behind_the_trim_is_told(h: Harness) -> None:
    start = h.store.ledger().cursor
    first = _done(h)
    behind = h.store.ledger(limit=1).cursor
    second, third = _done(h), _done(h)
    assert start is not None, "wanted a cursor from an empty ledger"
    h.advance(DAY)
    young = _done(h)
    equal(_trim(h, ledger_for=DAY).ledger, 3, "rows trimmed")
    for cursor in (start, behind):
        with raising(LedgerTrimmed, f"cursor {cursor}") as caught:
            h.store.ledger(after=cursor)
        equal(caught[0].cursor, cursor, "the cursor it tells")
    equal([row.job_id for row in h.store.ledger().items], [young], f"rows kept, of {first} {second} {third} {young}")


@case("L13", needs={Feature.LEDGER})
def a_reader_at_the_trim_reads_on(h: Harness) -> None:
    _done(h)
    _done(h)
    cursor = h.store.ledger().cursor
    h.advance(DAY)
    equal(_trim(h, ledger_for=DAY).ledger, 2, "rows trimmed")
    equal(h.store.ledger(after=cursor).items, [], "rows after the last one trimmed")
    last = _done(h)
    equal([row.job_id for row in h.store.ledger(after=cursor).items], [last], "rows that follow")


@case("L13", needs={Feature.LEDGER})
def a_ledger_trimmed_empty_goes_on(h: Harness) -> None:
    _done(h)
    h.advance(DAY)
    _trim(h, ledger_for=DAY)
    page = h.store.ledger()
    equal(page.items, [], "rows kept")
    last = _done(h)
    equal([row.job_id for row in h.store.ledger(after=page.cursor).items], [last], "rows that follow")


@case("L13", needs={Feature.LEDGER, Feature.REGISTRY})
def what_a_registered_reader_has_not_read_is_kept(h: Harness) -> None:
    read = _done(h)
    h.advance(SECOND)
    unread = _done(h)
    h.store.write([ledger_reader.register("history", read_until=h.now, wait_for=100 * DAY)], now=h.stamp)
    h.advance(60 * DAY)
    trimmed = _trim(h)
    equal((trimmed.jobs, trimmed.ledger), (1, 1), "jobs and rows trimmed")
    equal([row.job_id for row in h.ledger()], [unread], "the rows kept")
    equal((h.store.get(read), h.store.get(unread) is not None), (None, True), "the jobs kept")
    h.store.write([ledger_reader.register("history", read_until=h.now, wait_for=100 * DAY)], now=h.stamp)
    trimmed = _trim(h)
    equal((trimmed.jobs, trimmed.ledger), (1, 1), "jobs and rows trimmed once it has read on")


@case("L13", needs={Feature.LEDGER, Feature.REGISTRY})
def the_slowest_reader_counts_and_none_for_longer_than_its_registration(h: Harness) -> None:
    _done(h)
    slow = ledger_reader.register("slow", read_until=h.now - 1, wait_for=40 * DAY)
    quick = ledger_reader.register("quick", read_until=h.now + SECOND, wait_for=100 * DAY)
    h.store.write([slow, quick], now=h.stamp)
    h.advance(40 * DAY - 1)
    equal(_trim(h), Trimmed(), "trimmed a microsecond before it is forgotten")
    h.advance(1)
    trimmed = _trim(h)
    equal((trimmed.jobs, trimmed.ledger, trimmed.registry), (1, 1, 1), "jobs, rows and registrations trimmed then")


@case("L12", needs={Feature.IDEMPOTENCY})
def keys_are_trimmed_when_their_window_is_over(h: Harness) -> None:
    held = h.held(idempotency_key="k")
    h.settled(Ack(held.lease))
    h.advance(DAY - 1)
    equal(_trim(h, ended_for=DAY).dedupe, 0, "keys trimmed a microsecond early")
    h.advance(1)
    equal(_trim(h, ended_for=DAY).dedupe, 1, "keys trimmed in time")
    h.put(idempotency_key="k")


@case("L12", needs={Feature.IDEMPOTENCY})
def a_requeued_job_owns_its_key_again_also_after_a_trim(h: Harness) -> None:
    """The mapping is kept as long as the job's row is: nobody else has taken the key, so it is still the job's."""
    held = h.held(idempotency_key="k", payload=b"1")
    h.settled(Fail(held.lease, reason="broken"))
    h.advance(2 * DAY)
    equal(_trim(h).dedupe, 0, "keys of a kept job trimmed")
    equal(h.store.requeue([held.job.id], now=h.stamp), [True], "requeued")
    again = h.enqueue(h.job(idempotency_key="k", payload=b"1"))
    equal(again, [Enqueued(id=held.job.id, existed=True)], "the answer")


@case("L12", needs={Feature.IDEMPOTENCY})
def the_key_of_a_job_that_has_not_ended_is_never_trimmed(h: Harness) -> None:
    job = h.put(idempotency_key="k")
    h.advance(100 * DAY)
    equal(_trim(h).dedupe, 0, "keys trimmed")
    equal(h.enqueue(h.job(idempotency_key="k")), [Enqueued(id=job.id, existed=True)], "the answer")


@case("L12", needs={Feature.IDEMPOTENCY, Feature.LIMITS})
def a_key_outlives_its_trimmed_job_inside_the_window(h: Harness) -> None:
    h.store.configure(QUEUE, QueueSettings(dedupe_window=30 * DAY))
    held = h.held(idempotency_key="k", payload=b"1")
    h.settled(Ack(held.lease))
    h.advance(7 * DAY)
    equal(_trim(h).jobs, 1, "jobs trimmed")
    again = h.enqueue(h.job(idempotency_key="k", payload=b"1"))
    equal(again, [Enqueued(id=held.job.id, existed=True)], "the answer")


@case("L2", needs={Feature.REGISTRY})
def expired_registry_rows_are_trimmed(h: Harness) -> None:
    h.store.write(
        [Change(kind="kind", key="short", value=b"1", ttl=10), Change(kind="kind", key="for ever", value=b"2")],
        now=h.stamp,
    )
    h.advance(9)
    equal(_trim(h).registry, 0, "rows trimmed a microsecond early")
    h.advance(1)
    equal(_trim(h).registry, 1, "rows trimmed in time")
    [kept] = h.store.scan("kind", now=h.stamp)
    equal(kept.key, "for ever", "the row kept")


@case("L6")
def a_trim_keeps_to_its_limit_and_says_so(h: Harness) -> None:
    for _ in range(3):
        _done(h)
    h.advance(7 * DAY)
    first = _trim(h, limit=2)
    equal((first.jobs, first.more), (2, True), "jobs trimmed first, and whether there are more")
    second = _trim(h, limit=2)
    equal((second.jobs, second.more), (1, False), "jobs trimmed then, and whether there are more")


@case("L6")
def a_trim_of_nothing_removes_nothing(h: Harness) -> None:
    equal(_trim(h), Trimmed(), "what was trimmed")
