"""Retention: remove old jobs, ledger rows, keys and registry rows."""

from __future__ import annotations

from holdfast.clock import DAY, SECOND
from holdfast.drivers.answers import Trimmed
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Diagnose, Requeue, Scan, Trim, Write
from holdfast.errors import InvalidInput, JobNotInflight, LedgerTrimmed
from holdfast.model import retention
from holdfast.model.job import State
from holdfast.model.lease import Enqueued
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change
from holdfast.model.retention import Retention, store_retention
from holdfast.model.settlement import Ack, Fail
from holdfast.testing.drivers.conformance.assertions import assert_answers, assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import QUEUE, Harness

JOBS = {Feature.JOBS}


def _finish_job(h: Harness) -> str:
    reservation = h.reserve_new_job()
    h.must_settle(Ack(reservation.lease))
    return reservation.job.id


def _trim(h: Harness, *, ended_for: int = 7 * DAY, ledger_for: int = 30 * DAY, limit: int = 10_000) -> Trimmed:
    return h.store.do(Trim(ended_for=ended_for, ledger_for=ledger_for, limit=limit, now=h.now_or_none))


@case("L6", "L2", needs=JOBS)
def done_jobs_are_removed_when_they_are_old_enough(h: Harness) -> None:
    job_id = _finish_job(h)
    ended_at = h.now
    h.advance_to(ended_at + 7 * DAY - 1)
    assert_equal(_trim(h).jobs, 0, "jobs trimmed a microsecond early")
    assert_equal(h.state(job_id), State.DONE, "the state")
    h.advance_to(ended_at + 7 * DAY)
    assert_equal(_trim(h).jobs, 1, "jobs trimmed in time")
    assert_equal(h.store.get(job_id), None, "the job")


@case("L6", needs=JOBS)
def cancelled_jobs_are_removed_when_they_are_old_enough(h: Harness) -> None:
    job = h.enqueue_job()
    h.cancel(job.id)
    h.advance(7 * DAY)
    assert_equal(_trim(h).jobs, 1, "jobs trimmed")
    assert_equal(h.store.get(job.id), None, "the job")


@case("L9", needs=JOBS)
def dead_letters_are_never_trimmed(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Fail(reservation.lease, reason="no"))
    h.advance(10_000 * DAY)
    assert_equal(_trim(h, ended_for=DAY).jobs, 0, "jobs trimmed")
    assert_equal(h.state(reservation.job.id), State.DEAD, "the state")
    assert_equal(h.requeue(reservation.job.id), [True], "requeued")


@case("L9", needs=JOBS)
def jobs_that_have_not_ended_are_never_trimmed(h: Harness) -> None:
    running, waiting = h.reserve_new_job(lease_for=1000 * DAY), h.enqueue_job()
    h.advance(900 * DAY)
    assert_equal(_trim(h, ended_for=DAY).jobs, 0, "jobs trimmed")
    h.must_settle(Ack(running.lease))
    assert_equal(h.state(waiting.id), State.READY, "the state")


@case("L9", needs=JOBS)
def a_requeued_job_is_not_trimmed_because_of_its_old_ending(h: Harness) -> None:
    job = h.enqueue_job()
    h.cancel(job.id)
    h.requeue(job.id)
    h.advance(30 * DAY)
    assert_equal(_trim(h).jobs, 0, "jobs trimmed")
    assert_equal(h.reserve_ids(), [job.id], "reserved")


@case("L6", needs=JOBS)
def ended_jobs_are_kept_for_at_least_a_day(h: Harness) -> None:
    for invalid in (DAY - 1, 0, -1):
        with assert_raises(InvalidInput, f"ended_for={invalid}"):
            _trim(h, ended_for=invalid)


@case("L6", needs=JOBS)
def a_settlement_of_a_trimmed_job_cannot_be_repeated(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Ack(reservation.lease))
    h.advance(DAY)
    _trim(h, ended_for=DAY)
    assert_answers(h.settle(Ack(reservation.lease)), JobNotInflight)


@case("L6", needs=JOBS)
def the_id_of_a_trimmed_job_can_be_enqueued_again(h: Harness) -> None:
    job_id = _finish_job(h)
    h.advance(7 * DAY)
    _trim(h)
    assert_equal(h.enqueue(h.job(id=job_id)), [Enqueued(id=job_id, existed=False)], "the answer")


@case("L13", needs={Feature.LEDGER, Feature.JOBS})
def ledger_rows_are_removed_when_they_are_old_enough(h: Harness) -> None:
    _finish_job(h)
    h.advance(SECOND)
    young = _finish_job(h)
    h.advance(DAY - SECOND)
    assert_equal(_trim(h, ledger_for=DAY).ledger, 1, "rows trimmed")
    assert_equal([row.job_id for row in h.ledger()], [young], "the rows kept")


@case("L13", needs={Feature.LEDGER, Feature.JOBS})
def a_store_knows_what_was_trimmed_from_its_ledger_and_may_number_the_rows(h: Harness) -> None:
    store = h.store
    _finish_job(h)
    _finish_job(h)
    assert_equal((_trim(h).ledger, store.do(Diagnose()).trimmed_rows), (0, 0), "rows trimmed, and trimmed in all")
    h.advance(DAY)
    _finish_job(h)
    wanted = 2 if store.engine.has_numbered_ledger else None
    assert_equal(
        (_trim(h, ledger_for=DAY).ledger, store.do(Diagnose()).trimmed_rows), (2, wanted), "rows trimmed, and in all"
    )
    if store.engine.has_numbered_ledger:
        assert_equal(list(store.ledger().cursors), ["3"], "the cursor of the third row")


@case("L13", needs={Feature.LEDGER, Feature.JOBS})
def a_reader_whose_next_rows_were_trimmed_gets_an_error(h: Harness) -> None:
    start = h.store.ledger().cursor
    first = _finish_job(h)
    after_first = h.store.ledger(limit=1).cursor
    second, third = _finish_job(h), _finish_job(h)
    assert start is not None, "wanted a cursor from an empty ledger"
    h.advance(DAY)
    young = _finish_job(h)
    assert_equal(_trim(h, ledger_for=DAY).ledger, 3, "rows trimmed")
    for cursor in (start, after_first):
        with assert_raises(LedgerTrimmed, f"cursor {cursor}") as caught:
            h.store.ledger(after=cursor)
        assert_equal(caught[0].cursor, cursor, "the cursor in the error")
    assert_equal(
        [row.job_id for row in h.store.ledger().items], [young], f"rows kept, of {first} {second} {third} {young}"
    )


@case("L13", needs={Feature.LEDGER, Feature.JOBS})
def a_reader_that_has_read_all_trimmed_rows_continues(h: Harness) -> None:
    _finish_job(h)
    _finish_job(h)
    cursor = h.store.ledger().cursor
    h.advance(DAY)
    assert_equal(_trim(h, ledger_for=DAY).ledger, 2, "rows trimmed")
    assert_equal(h.store.ledger(after=cursor).items, [], "rows after the last one trimmed")
    last = _finish_job(h)
    assert_equal([row.job_id for row in h.store.ledger(after=cursor).items], [last], "rows that follow")


@case("L13", needs={Feature.LEDGER, Feature.JOBS})
def an_empty_ledger_after_a_trim_accepts_new_rows(h: Harness) -> None:
    _finish_job(h)
    h.advance(DAY)
    _trim(h, ledger_for=DAY)
    page = h.store.ledger()
    assert_equal(page.items, [], "rows kept")
    last = _finish_job(h)
    assert_equal([row.job_id for row in h.store.ledger(after=page.cursor).items], [last], "rows that follow")


@case("L13", needs={Feature.REGISTRY, Feature.LEDGER, Feature.JOBS})
def a_trim_without_durations_follows_the_retention_of_the_store(h: Harness) -> None:
    """So that two workers with different settings cannot disagree."""
    _finish_job(h)
    h.store.do(Write(changes=[store_retention(Retention(ended_for=40 * DAY, ledger_for=50 * DAY))], now=h.now_or_none))
    for days, removed in ((39, (0, 0)), (1, (1, 0)), (9, (0, 0)), (1, (0, 1))):
        h.advance(days * DAY)
        trimmed = h.store.do(Trim(now=h.now_or_none))
        assert_equal((trimmed.jobs, trimmed.ledger), removed, f"jobs and rows trimmed {days} days later")


@case("L13", needs={Feature.REGISTRY, Feature.LEDGER, Feature.JOBS})
def a_duration_of_a_trim_replaces_the_retention_of_the_store(h: Harness) -> None:
    _finish_job(h)
    h.store.do(Write(changes=[store_retention(Retention(ended_for=40 * DAY, ledger_for=50 * DAY))], now=h.now_or_none))
    h.advance(2 * DAY)
    for options, removed in (({"ended_for": 2 * DAY}, (1, 0)), ({"ledger_for": 2 * DAY}, (0, 1))):
        trimmed = h.store.do(Trim(**options, now=h.now_or_none))
        assert_equal((trimmed.jobs, trimmed.ledger), removed, f"jobs and rows trimmed with {options}")


@case("L13", needs={Feature.REGISTRY, Feature.JOBS})
def an_unreadable_retention_removes_nothing(h: Harness) -> None:
    _finish_job(h)
    h.store.do(Write(changes=[Change(kind=retention.KIND, key=retention.KEY, value=b"30 days")], now=h.now_or_none))
    h.advance(400 * DAY)
    with assert_raises(InvalidInput, "a trim with an unreadable retention"):
        h.store.do(Trim(now=h.now_or_none))


@case("L12", needs={Feature.KEY, Feature.JOBS})
def keys_are_removed_when_their_window_is_over(h: Harness) -> None:
    reservation = h.reserve_new_job(idempotency_key="k")
    h.must_settle(Ack(reservation.lease))
    h.advance(DAY - 1)
    assert_equal(_trim(h, ended_for=DAY).dedupe, 0, "keys trimmed a microsecond early")
    h.advance(1)
    assert_equal(_trim(h, ended_for=DAY).dedupe, 1, "keys trimmed in time")
    h.enqueue_job(idempotency_key="k")


@case("L12", needs={Feature.KEY, Feature.JOBS})
def the_key_of_a_done_job_is_removed_with_its_window_although_the_job_is_kept(h: Harness) -> None:
    """A done job is never requeued: a key that is kept with it would be read again by every trim."""
    reservation = h.reserve_new_job(idempotency_key="k")
    h.must_settle(Ack(reservation.lease))
    h.advance(DAY)
    trimmed = _trim(h)
    assert_equal((trimmed.jobs, trimmed.dedupe), (0, 1), "jobs and keys trimmed")
    assert_equal(_trim(h).dedupe, 0, "keys trimmed again")


@case("L12", needs={Feature.KEY, Feature.JOBS})
def a_requeued_job_has_its_key_again_after_a_trim(h: Harness) -> None:
    """A trim keeps the key as long as the job may be requeued, so no other job can have taken the key."""
    reservation = h.reserve_new_job(idempotency_key="k", payload=b"1")
    h.must_settle(Fail(reservation.lease, reason="broken"))
    h.advance(2 * DAY)
    assert_equal(_trim(h).dedupe, 0, "keys trimmed while the job can be requeued")
    assert_equal(h.store.do(Requeue(job_ids=[reservation.job.id], now=h.now_or_none)), [True], "requeued")
    again = h.enqueue(h.job(idempotency_key="k", payload=b"1"))
    assert_equal(again, [Enqueued(id=reservation.job.id, existed=True)], "the answer")


@case("L12", needs={Feature.KEY, Feature.JOBS})
def the_key_of_a_job_that_has_not_ended_is_never_trimmed(h: Harness) -> None:
    job = h.enqueue_job(idempotency_key="k")
    h.advance(100 * DAY)
    assert_equal(_trim(h).dedupe, 0, "keys trimmed")
    assert_equal(h.enqueue(h.job(idempotency_key="k")), [Enqueued(id=job.id, existed=True)], "the answer")


@case("L12", needs={Feature.KEY, Feature.JOBS})
def the_key_of_a_job_that_ends_after_the_window_is_removed_later(h: Harness) -> None:
    """A store may look at such a key in increasing intervals, but must not forget it."""
    reservation = h.reserve_new_job(lease_for=10 * DAY, idempotency_key="k")
    h.advance(2 * DAY)
    assert_equal(_trim(h).dedupe, 0, "keys trimmed while the job is in flight")
    h.must_settle(Ack(reservation.lease))
    removed = 0
    for _ in range(2):
        h.advance(DAY)
        removed += _trim(h).dedupe
    assert_equal(removed, 1, "keys trimmed when the window had been over for two and for three days")


@case("L12", needs={Feature.KEY, Feature.LIMITS, Feature.JOBS})
def a_key_is_kept_within_its_window_after_its_job_was_trimmed(h: Harness) -> None:
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(dedupe_window=30 * DAY)))
    reservation = h.reserve_new_job(idempotency_key="k", payload=b"1")
    h.must_settle(Ack(reservation.lease))
    h.advance(7 * DAY)
    assert_equal(_trim(h).jobs, 1, "jobs trimmed")
    again = h.enqueue(h.job(idempotency_key="k", payload=b"1"))
    assert_equal(again, [Enqueued(id=reservation.job.id, existed=True)], "the answer")


@case("L2", needs={Feature.REGISTRY, Feature.JOBS})
def expired_registry_rows_are_removed(h: Harness) -> None:
    h.store.do(
        Write(
            changes=[
                Change(kind="kind", key="short", value=b"1", ttl=10),
                Change(kind="kind", key="permanent", value=b"2"),
            ],
            now=h.now_or_none,
        )
    )
    h.advance(9)
    assert_equal(_trim(h).registry, 0, "rows trimmed a microsecond early")
    h.advance(1)
    assert_equal(_trim(h).registry, 1, "rows trimmed in time")
    [entry] = h.store.do(Scan(kind="kind", now=h.now_or_none))
    assert_equal(entry.key, "permanent", "the row kept")


@case("L6", needs=JOBS)
def a_trim_removes_at_most_limit_jobs_and_reports_that_more_remain(h: Harness) -> None:
    for _ in range(3):
        _finish_job(h)
    h.advance(7 * DAY)
    first = _trim(h, limit=2)
    assert_equal((first.jobs, first.more), (2, True), "jobs trimmed first, and whether there are more")
    second = _trim(h, limit=2)
    assert_equal((second.jobs, second.more), (1, False), "jobs trimmed then, and whether there are more")


@case("L6", needs=JOBS)
def a_trim_of_an_empty_space_removes_nothing(h: Harness) -> None:
    assert_equal(_trim(h), Trimmed(), "the trimmed counts")
