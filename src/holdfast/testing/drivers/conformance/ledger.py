"""The record of every ending (L13)."""

from __future__ import annotations

from typing import Any

from holdfast.clock import SECOND
from holdfast.drivers.contract import Feature
from holdfast.errors import InvalidInput
from holdfast.model.job import State
from holdfast.model.lease import Note, Reservation
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, raising
from holdfast.testing.drivers.harness import LEASE, START, WORKER, Harness

LEDGER = {Feature.LEDGER}


def _held(h: Harness, **fields: Any) -> Reservation:
    """A job that came at the start and was reserved a second later, so that no two instants are equal."""
    h.put(**{"domain": "d", **fields})
    h.advance(SECOND)
    held = h.take()
    h.advance(SECOND)
    return held


def _row(h: Harness, held: Reservation, **differs: Any) -> LedgerRow:
    """What the ledger should say of a lease that ends now."""
    usual = {
        "job_id": held.job.id,
        "type": held.job.type,
        "queue": held.job.queue,
        "domain": held.job.domain,
        "offset": None,
        "attempt": held.job.attempts,
        "fence": held.lease.fence,
        "worker": WORKER,
        "enqueued_at": START,
        "available_at": START,
        "reserved_at": START + SECOND,
        "started_at": None,
        "ended_at": h.now,
        "detail": "",
        "error": "",
    }
    return LedgerRow(**{**usual, **differs})


@case("L13", needs=LEDGER)
def a_new_space_has_an_empty_ledger(h: Harness) -> None:
    h.put()
    h.take()
    equal(h.ledger(), [], "the ledger before anything has ended")


@case("L13", needs=LEDGER)
def the_end_of_the_ledger_leads_to_what_follows(h: Harness) -> None:
    store = h.store
    first, second = _held(h), _held(h, domain="other")
    equal(store.ledger(store.ledger_end()).items, [], "what follows the end of an empty ledger")
    h.settled(Ack(first.lease))
    end = store.ledger_end()
    equal(store.ledger(end).items, [], "what follows the end")
    h.settled(Ack(second.lease))
    equal([row.job_id for row in store.ledger(end)], [second.job.id], "what followed")


@case("L13", needs=LEDGER)
def an_ack_has_its_row(h: Harness) -> None:
    held = _held(h)
    h.settled(Ack(held.lease, started_at=h.now - 5, detail="fine ü"))
    wanted = _row(h, held, ending=Ending.ACKED, state=State.DONE, started_at=h.now - 5, detail="fine ü")
    equal(h.ledger(), [wanted], "the ledger")


@case("L13", needs=LEDGER)
def a_retry_has_its_row(h: Harness) -> None:
    held = _held(h)
    h.settled(Retry(held.lease, delay=SECOND, error="boom", started_at=h.now - 5, detail="slow"))
    wanted = _row(h, held, ending=Ending.RETRIED, state=State.READY, error="boom", started_at=h.now - 5, detail="slow")
    equal(h.ledger(), [wanted], "the ledger")


@case("L13", needs=LEDGER)
def a_last_retry_has_its_row(h: Harness) -> None:
    held = _held(h, max_attempts=1)
    h.settled(Retry(held.lease, error="boom"))
    equal(h.ledger(), [_row(h, held, ending=Ending.RETRIED, state=State.DEAD, error="boom")], "the ledger")


@case("L13", needs=LEDGER)
def a_fail_has_its_row(h: Harness) -> None:
    held = _held(h)
    h.settled(Fail(held.lease, reason="no", error="boom", detail="gave up"))
    wanted = _row(h, held, ending=Ending.FAILED, state=State.DEAD, error="boom", detail="gave up")
    equal(h.ledger(), [wanted], "the ledger")


@case("L13", needs=LEDGER)
def a_release_has_its_row(h: Harness) -> None:
    held = _held(h)
    h.settled(Release(held.lease, detail="shutdown"))
    wanted = _row(h, held, ending=Ending.RELEASED, state=State.READY, detail="shutdown")
    equal(h.ledger(), [wanted], "the ledger")


@case("L13", needs=LEDGER)
def an_expired_lease_has_its_row(h: Harness) -> None:
    held = _held(h)
    h.advance(LEASE)
    h.reap()
    equal(h.ledger(), [_row(h, held, ending=Ending.EXPIRED, state=State.READY)], "the ledger")


@case("L13", "L3", needs=LEDGER)
def a_lease_ended_by_a_reserve_has_its_row(h: Harness) -> None:
    held = _held(h, max_attempts=1)
    h.advance(LEASE)
    equal(h.reserve(), [], "reserved")
    equal(h.ledger(), [_row(h, held, ending=Ending.EXPIRED, state=State.DEAD)], "the ledger")


@case("L13", needs=LEDGER)
def a_lease_of_a_dead_worker_has_its_row(h: Harness) -> None:
    held = _held(h)
    h.reap(worker=WORKER)
    equal(h.ledger(), [_row(h, held, ending=Ending.EXPIRED, state=State.READY)], "the ledger")


@case("L13", needs=LEDGER)
def the_row_of_a_later_attempt_tells_its_own_facts(h: Harness) -> None:
    held = _held(h)
    h.settled(Retry(held.lease))
    retried_at = h.now
    h.advance(SECOND)
    again = h.take(worker="other")
    reserved_at = h.now
    h.advance(SECOND)
    h.settled(Ack(again.lease))
    wanted = _row(
        h,
        again,
        ending=Ending.ACKED,
        state=State.DONE,
        worker="other",
        available_at=retried_at,
        reserved_at=reserved_at,
    )
    equal(h.ledger()[1:], [wanted], "the second row")
    equal(wanted.attempt, 2, "its attempt")


@case("L13", needs=LEDGER)
def a_cancel_of_a_waiting_job_has_a_row_without_a_lease(h: Harness) -> None:
    held = _held(h)
    h.settled(Release(held.lease))
    h.cancel(held.job.id)
    wanted = _row(
        h,
        held,
        ending=Ending.CANCELLED,
        state=State.CANCELLED,
        attempt=0,
        fence=None,
        worker="",
        reserved_at=None,
    )
    equal(h.ledger()[1:], [wanted], "the row of the cancel")


@case("L13", needs=LEDGER)
def a_requeue_has_a_row_without_a_lease(h: Harness) -> None:
    held = _held(h)
    h.settled(Fail(held.lease, reason="no"))
    h.advance(SECOND)
    h.requeue(held.job.id)
    wanted = _row(h, held, ending=Ending.REQUEUED, state=State.READY, fence=None, worker="", reserved_at=None)
    equal(h.ledger()[1:], [wanted], "the row of the requeue")


@case("L13", needs=LEDGER)
def a_purge_has_a_row_without_a_lease_and_without_a_state(h: Harness) -> None:
    held = _held(h)
    h.settled(Ack(held.lease))
    h.advance(SECOND)
    h.purge(held.job.id)
    wanted = _row(h, held, ending=Ending.PURGED, state=None, fence=None, worker="", reserved_at=None)
    equal(h.ledger()[1:], [wanted], "the row of the purge")


@case("L13", needs=LEDGER)
def a_requeued_job_is_still_as_old_as_it_is(h: Harness) -> None:
    held = _held(h)
    h.settled(Fail(held.lease, reason="no"))
    h.requeue(held.job.id)
    requeued_at = h.now
    h.settled(Ack(h.take().lease))
    last = h.ledger()[-1]
    equal((last.enqueued_at, last.available_at), (START, requeued_at), "enqueued_at and available_at")


@case("L13", needs=LEDGER | {Feature.NOTES})
def what_a_settlement_says_of_the_start_wins_over_the_note(h: Harness) -> None:
    held = h.held()
    h.extended(held.lease, note=Note(started_at=h.now + 1))
    h.settled(Ack(held.lease, started_at=h.now + 2))
    equal([row.started_at for row in h.ledger()], [h.now + 2], "started_at")


@case("L13", needs=LEDGER | {Feature.NOTES})
def the_note_tells_the_start_when_the_settlement_does_not(h: Harness) -> None:
    held = h.held()
    h.extended(held.lease, note=Note(started_at=h.now + 1))
    h.settled(Ack(held.lease))
    equal([row.started_at for row in h.ledger()], [h.now + 1], "started_at")


@case("L13", needs=LEDGER)
def rows_stand_in_the_order_in_which_things_ended(h: Harness) -> None:
    first, second, third = (h.held() for _ in range(3))
    h.settled(Ack(second.lease), Ack(first.lease))
    h.settled(Ack(third.lease))
    wanted = [held.job.id for held in (second, first, third)]
    equal([row.job_id for row in h.ledger()], wanted, "the order")


@case("L13", needs=LEDGER)
def every_lease_leaves_exactly_one_row(h: Harness) -> None:
    for _ in range(8):
        h.put(max_attempts=3)
    fences = []
    for turn in range(40):
        found = h.reserve(3)
        fences += [held.lease.fence for held in found]
        for number, held in enumerate(found):
            act = (turn + number) % 4
            if act < 3:
                verb = (Ack, Retry, Release)[act]
                h.settle(verb(held.lease), verb(held.lease))
        h.advance(LEASE)
    h.reap()
    rows = h.ledger()
    equal(sorted(row.fence or 0 for row in rows), sorted(fences), "the fences in the ledger")


@case("L13", needs=LEDGER)
def a_ledger_read_row_by_row_has_no_gaps(h: Harness) -> None:
    ids = [h.held().job.id for _ in range(5)]
    h.lapse()
    whole = h.ledger()
    cursor, read = None, []
    for _ in range(5):
        page = h.store.ledger(after=cursor, limit=1)
        read += page.items
        cursor = page.cursor
    equal(read, whole, "the rows, read one by one")
    equal(sorted(row.job_id for row in read), ids, "the jobs")


@case("L13", needs=LEDGER)
def a_page_read_again_is_the_same(h: Harness) -> None:
    for _ in range(4):
        h.settled(Ack(h.held().lease))
    first = h.store.ledger(limit=2)
    second = h.store.ledger(after=first.cursor, limit=2)
    h.settled(Ack(h.held().lease))
    equal(h.store.ledger(limit=2), first, "the first page, read again")
    equal(h.store.ledger(after=first.cursor, limit=2), second, "the second page, read again")


@case("L13", needs=LEDGER)
def the_cursor_of_an_empty_page_leads_on(h: Harness) -> None:
    empty = h.store.ledger()
    equal(empty.items, [], "the first page")
    h.settled(Ack(h.held().lease))
    page = h.store.ledger(after=empty.cursor)
    equal(len(page.items), 1, "rows after the empty page")
    end = h.store.ledger(after=page.cursor)
    equal(end.items, [], "rows after the last one")
    h.settled(Ack(h.held().lease))
    equal(len(h.store.ledger(after=end.cursor).items), 1, "rows after the end, once there is another")


@case("L13", needs=LEDGER)
def a_cursor_is_never_none(h: Harness) -> None:
    assert h.store.ledger().cursor is not None, "wanted a cursor from an empty ledger"
    h.settled(Ack(h.held().lease))
    assert h.store.ledger().cursor is not None, "wanted a cursor from the last page"


@case("L13", needs=LEDGER)
def a_cursor_leads_on_over_another_connection(h: Harness) -> None:
    h.settled(Ack(h.held().lease))
    cursor = h.store.ledger().cursor
    last = h.held()
    h.settled(Ack(last.lease))
    rows = h.another().ledger(after=cursor).items
    equal([row.job_id for row in rows], [last.job.id], "the rows that follow")


@case("L13", needs=LEDGER)
def a_cursor_that_no_ledger_gave_is_refused(h: Harness) -> None:
    with raising(InvalidInput):
        h.store.ledger(after="no cursor at all")
