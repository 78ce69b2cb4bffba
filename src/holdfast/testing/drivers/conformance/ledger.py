"""The ledger: one row per ending, read without gaps (L13)."""

from __future__ import annotations

from typing import Any

from holdfast.clock import SECOND
from holdfast.drivers.answers import Page
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import LedgerEnd, LedgerTail, Trim
from holdfast.errors import InvalidInput
from holdfast.model.job import State
from holdfast.model.lease import Note, Reservation
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, START, WORKER, Harness

LEDGER = {Feature.LEDGER}


def _reserve_job(h: Harness, **fields: Any) -> Reservation:
    """Enqueue a job, reserve it a second later and wait another second, so that all instants differ."""
    h.enqueue_job(**{"domain": "d", **fields})
    h.advance(SECOND)
    reservation = h.reserve_one()
    h.advance(SECOND)
    return reservation


def _expected_row(h: Harness, reservation: Reservation, **fields: Any) -> LedgerRow:
    """Return the expected row of a lease that ends now."""
    defaults = {
        "job_id": reservation.job.id,
        "type": reservation.job.type,
        "queue": reservation.job.queue,
        "domain": reservation.job.domain,
        "offset": None,
        "attempt": reservation.job.attempts,
        "fence": reservation.lease.fence,
        "worker": WORKER,
        "enqueued_at": START,
        "available_at": START,
        "reserved_at": START + SECOND,
        "started_at": None,
        "ended_at": h.now,
        "detail": "",
        "error": "",
    }
    return LedgerRow(**{**defaults, **fields})


@case("L13", needs=LEDGER)
def a_new_space_has_an_empty_ledger(h: Harness) -> None:
    h.enqueue_job()
    h.reserve_one()
    assert_equal(h.ledger(), [], "the ledger before anything has ended")


@case("L13", needs=LEDGER | {Feature.DOMAIN})
def the_cursor_of_the_ledger_end_returns_only_later_rows(h: Harness) -> None:
    store = h.store
    first, second = _reserve_job(h), _reserve_job(h, domain="other")
    assert_equal(store.ledger(store.do(LedgerEnd())).items, [], "rows after the end of an empty ledger")
    h.must_settle(Ack(first.lease))
    end = store.do(LedgerEnd())
    assert_equal(store.ledger(end).items, [], "rows after the end")
    h.must_settle(Ack(second.lease))
    assert_equal([row.job_id for row in store.ledger(end)], [second.job.id], "rows written after the end")


@case("L13", needs=LEDGER | {Feature.DOMAIN})
def an_ack_writes_its_row(h: Harness) -> None:
    reservation = _reserve_job(h)
    h.must_settle(Ack(reservation.lease, started_at=h.now - 5, detail="fine ü"))
    wanted = _expected_row(h, reservation, ending=Ending.ACKED, state=State.DONE, started_at=h.now - 5, detail="fine ü")
    assert_equal(h.ledger(), [wanted], "the ledger")


@case("L13", needs=LEDGER | {Feature.SCHEDULE, Feature.DOMAIN})
def a_retry_writes_its_row(h: Harness) -> None:
    reservation = _reserve_job(h)
    h.must_settle(Retry(reservation.lease, delay=SECOND, error="boom", started_at=h.now - 5, detail="slow"))
    wanted = _expected_row(
        h, reservation, ending=Ending.RETRIED, state=State.READY, error="boom", started_at=h.now - 5, detail="slow"
    )
    assert_equal(h.ledger(), [wanted], "the ledger")


@case("L13", needs=LEDGER | {Feature.DOMAIN})
def a_retry_of_the_last_attempt_writes_its_row(h: Harness) -> None:
    reservation = _reserve_job(h, max_attempts=1)
    h.must_settle(Retry(reservation.lease, error="boom"))
    assert_equal(
        h.ledger(), [_expected_row(h, reservation, ending=Ending.RETRIED, state=State.DEAD, error="boom")], "the ledger"
    )


@case("L13", needs=LEDGER | {Feature.DOMAIN})
def a_fail_writes_its_row(h: Harness) -> None:
    reservation = _reserve_job(h)
    h.must_settle(Fail(reservation.lease, reason="no", error="boom", detail="gave up"))
    wanted = _expected_row(h, reservation, ending=Ending.FAILED, state=State.DEAD, error="boom", detail="gave up")
    assert_equal(h.ledger(), [wanted], "the ledger")


@case("L13", needs=LEDGER | {Feature.DOMAIN})
def a_release_writes_its_row(h: Harness) -> None:
    reservation = _reserve_job(h)
    h.must_settle(Release(reservation.lease, detail="shutdown"))
    wanted = _expected_row(h, reservation, ending=Ending.RELEASED, state=State.READY, detail="shutdown")
    assert_equal(h.ledger(), [wanted], "the ledger")


@case("L13", needs=LEDGER | {Feature.DOMAIN})
def an_expired_lease_writes_its_row(h: Harness) -> None:
    reservation = _reserve_job(h)
    h.advance(LEASE)
    h.reap()
    assert_equal(h.ledger(), [_expected_row(h, reservation, ending=Ending.EXPIRED, state=State.READY)], "the ledger")


@case("L13", "L3", needs=LEDGER | {Feature.DOMAIN})
def a_lease_that_reserve_ended_writes_its_row(h: Harness) -> None:
    reservation = _reserve_job(h, max_attempts=1)
    h.advance(LEASE)
    assert_equal(h.reserve(), [], "reserved")
    assert_equal(h.ledger(), [_expected_row(h, reservation, ending=Ending.EXPIRED, state=State.DEAD)], "the ledger")


@case("L13", needs=LEDGER | {Feature.DOMAIN})
def a_lease_reaped_from_a_dead_worker_writes_its_row(h: Harness) -> None:
    reservation = _reserve_job(h)
    h.reap(worker=WORKER)
    assert_equal(h.ledger(), [_expected_row(h, reservation, ending=Ending.EXPIRED, state=State.READY)], "the ledger")


@case("L13", needs=LEDGER | {Feature.DOMAIN})
def the_row_of_a_later_attempt_has_its_own_values(h: Harness) -> None:
    reservation = _reserve_job(h)
    h.must_settle(Retry(reservation.lease))
    retried_at = h.now
    h.advance(SECOND)
    again = h.reserve_one(worker="other")
    reserved_at = h.now
    h.advance(SECOND)
    h.must_settle(Ack(again.lease))
    wanted = _expected_row(
        h,
        again,
        ending=Ending.ACKED,
        state=State.DONE,
        worker="other",
        available_at=retried_at,
        reserved_at=reserved_at,
    )
    assert_equal(h.ledger()[1:], [wanted], "the second row")
    assert_equal(wanted.attempt, 2, "its attempt")


@case("L13", needs=LEDGER | {Feature.JOBS, Feature.DOMAIN})
def a_cancel_of_a_ready_job_writes_a_row_without_a_lease(h: Harness) -> None:
    reservation = _reserve_job(h)
    h.must_settle(Release(reservation.lease))
    h.cancel(reservation.job.id)
    wanted = _expected_row(
        h,
        reservation,
        ending=Ending.CANCELLED,
        state=State.CANCELLED,
        attempt=0,
        fence=None,
        worker="",
        reserved_at=None,
    )
    assert_equal(h.ledger()[1:], [wanted], "the row of the cancel")


@case("L13", needs=LEDGER | {Feature.JOBS, Feature.DOMAIN})
def a_requeue_writes_a_row_without_a_lease(h: Harness) -> None:
    reservation = _reserve_job(h)
    h.must_settle(Fail(reservation.lease, reason="no"))
    h.advance(SECOND)
    h.requeue(reservation.job.id)
    wanted = _expected_row(
        h, reservation, ending=Ending.REQUEUED, state=State.READY, fence=None, worker="", reserved_at=None
    )
    assert_equal(h.ledger()[1:], [wanted], "the row of the requeue")


@case("L13", needs=LEDGER | {Feature.JOBS, Feature.DOMAIN})
def a_purge_writes_a_row_without_a_lease_and_without_a_state(h: Harness) -> None:
    reservation = _reserve_job(h)
    h.must_settle(Ack(reservation.lease))
    h.advance(SECOND)
    h.purge(reservation.job.id)
    wanted = _expected_row(h, reservation, ending=Ending.PURGED, state=None, fence=None, worker="", reserved_at=None)
    assert_equal(h.ledger()[1:], [wanted], "the row of the purge")


@case("L13", needs=LEDGER | {Feature.JOBS, Feature.DOMAIN})
def a_requeue_keeps_enqueued_at(h: Harness) -> None:
    reservation = _reserve_job(h)
    h.must_settle(Fail(reservation.lease, reason="no"))
    h.requeue(reservation.job.id)
    requeued_at = h.now
    h.must_settle(Ack(h.reserve_one().lease))
    last = h.ledger()[-1]
    assert_equal((last.enqueued_at, last.available_at), (START, requeued_at), "enqueued_at and available_at")


@case("L13", needs=LEDGER | {Feature.NOTES})
def started_at_of_the_settlement_wins_over_started_at_of_the_note(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_extend(reservation.lease, note=Note(started_at=h.now + 1))
    h.must_settle(Ack(reservation.lease, started_at=h.now + 2))
    assert_equal([row.started_at for row in h.ledger()], [h.now + 2], "started_at")


@case("L13", needs=LEDGER | {Feature.NOTES})
def started_at_of_the_note_is_used_if_the_settlement_omits_it(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_extend(reservation.lease, note=Note(started_at=h.now + 1))
    h.must_settle(Ack(reservation.lease))
    assert_equal([row.started_at for row in h.ledger()], [h.now + 1], "started_at")


@case("L13", needs=LEDGER)
def rows_are_in_the_order_of_the_endings(h: Harness) -> None:
    first, second, third = (h.reserve_new_job() for _ in range(3))
    h.must_settle(Ack(second.lease), Ack(first.lease))
    h.must_settle(Ack(third.lease))
    wanted = [reservation.job.id for reservation in (second, first, third)]
    assert_equal([row.job_id for row in h.ledger()], wanted, "the order")


@case("L13", needs=LEDGER)
def every_lease_writes_exactly_one_row(h: Harness) -> None:
    for _ in range(8):
        h.enqueue_job(max_attempts=3)
    fences = []
    for turn in range(40):
        reservations = h.reserve(3)
        fences += [reservation.lease.fence for reservation in reservations]
        for number, reservation in enumerate(reservations):
            act = (turn + number) % 4
            if act < 3:
                verb = (Ack, Retry, Release)[act]
                h.settle(verb(reservation.lease), verb(reservation.lease))
        h.advance(LEASE)
    h.reap()
    rows = h.ledger()
    assert_equal(sorted(row.fence or 0 for row in rows), sorted(fences), "the fences in the ledger")


@case("L13", needs=LEDGER)
def a_ledger_read_row_by_row_has_no_gaps(h: Harness) -> None:
    ids = [h.reserve_new_job().job.id for _ in range(5)]
    h.expire_leases()
    whole = h.ledger()
    cursor, rows = None, []
    for _ in range(5):
        page = h.store.ledger(after=cursor, limit=1)
        rows += page.items
        cursor = page.cursor
    assert_equal(rows, whole, "the rows, read one by one")
    assert_equal(sorted(row.job_id for row in rows), ids, "the jobs")


@case("L13", needs=LEDGER)
def a_page_that_is_read_again_is_the_same(h: Harness) -> None:
    for _ in range(4):
        h.must_settle(Ack(h.reserve_new_job().lease))
    first = h.store.ledger(limit=2)
    second = h.store.ledger(after=first.cursor, limit=2)
    h.must_settle(Ack(h.reserve_new_job().lease))
    assert_equal(h.store.ledger(limit=2), first, "the first page, read again")
    assert_equal(h.store.ledger(after=first.cursor, limit=2), second, "the second page, read again")


@case("L13", needs=LEDGER)
def the_cursor_of_an_empty_page_returns_later_rows(h: Harness) -> None:
    empty = h.store.ledger()
    assert_equal(empty.items, [], "the first page")
    h.must_settle(Ack(h.reserve_new_job().lease))
    page = h.store.ledger(after=empty.cursor)
    assert_equal(len(page.items), 1, "rows after the empty page")
    end = h.store.ledger(after=page.cursor)
    assert_equal(end.items, [], "rows after the last one")
    h.must_settle(Ack(h.reserve_new_job().lease))
    assert_equal(len(h.store.ledger(after=end.cursor).items), 1, "rows after the end, once there is another")


@case("L13", needs=LEDGER)
def a_cursor_is_never_none(h: Harness) -> None:
    assert h.store.ledger().cursor is not None, "wanted a cursor from an empty ledger"
    h.must_settle(Ack(h.reserve_new_job().lease))
    assert h.store.ledger().cursor is not None, "wanted a cursor from the last page"


@case("L13", needs=LEDGER)
def the_tail_of_the_ledger_has_its_last_rows_in_order(h: Harness) -> None:
    assert_equal(h.store.do(LedgerTail()), Page([], None), "the tail of an empty ledger")
    for _ in range(5):
        h.must_settle(Ack(h.reserve_new_job().lease))
    rows = h.ledger()
    assert_equal(h.store.do(LedgerTail(limit=2)).items, rows[-2:], "the last two rows")
    assert_equal(h.store.do(LedgerTail()), Page(rows, None), "the tail that is longer than the ledger")


@case("L13", needs=LEDGER)
def the_ledger_is_read_backwards_without_gaps(h: Harness) -> None:
    for _ in range(5):
        h.must_settle(Ack(h.reserve_new_job().lease))
    rows, pages, before = h.ledger(), [], h.store.do(LedgerEnd())
    h.must_settle(Ack(h.reserve_new_job().lease))  # behind the cursor: in no page
    while True:
        page = h.store.do(LedgerTail(before=before, limit=2))
        pages.append(page.items)
        if page.cursor is None:
            break
        after = h.store.ledger(page.cursor, limit=len(page))
        assert_equal(after.items, page.items, "the rows after the cursor of a page of the tail")
        before = page.cursor
    assert_equal([page for page in pages if page], [rows[3:], rows[1:3], rows[:1]], "the pages")


@case("L13", needs=LEDGER | {Feature.JOBS})
def the_tail_of_a_trimmed_ledger_has_the_rows_that_are_left(h: Harness) -> None:
    h.must_settle(Ack(h.reserve_new_job().lease))
    first = h.store.do(LedgerEnd())
    h.advance(2 * SECOND)
    h.must_settle(Ack(h.reserve_new_job().lease))
    h.store.do(Trim(ledger_for=SECOND, now=h.now_or_none))
    assert_equal(h.store.do(LedgerTail()), Page(h.ledger(), None), "the tail after a trim")
    assert_equal(h.store.do(LedgerTail(before=first)), Page([], None), "the tail up to a row that was trimmed")


@case("L13", needs=LEDGER)
def a_cursor_is_valid_on_another_connection(h: Harness) -> None:
    h.must_settle(Ack(h.reserve_new_job().lease))
    cursor = h.store.ledger().cursor
    last = h.reserve_new_job()
    h.must_settle(Ack(last.lease))
    rows = h.connect_again().ledger(after=cursor).items
    assert_equal([row.job_id for row in rows], [last.job.id], "the rows that follow")


@case("L13", needs=LEDGER)
def an_invalid_cursor_is_refused(h: Harness) -> None:
    with assert_raises(InvalidInput):
        h.store.ledger(after="no cursor at all")
    with assert_raises(InvalidInput, "an invalid cursor of the tail"):
        h.store.do(LedgerTail(before="no cursor at all"))
