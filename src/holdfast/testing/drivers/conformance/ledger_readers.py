"""Registered readers of the ledger: trim and purge wait for them, and a reader may stop after any row."""

from __future__ import annotations

from holdfast.clock import DAY, HOUR, SECOND
from holdfast.drivers.answers import Trimmed
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import LedgerTail, Trim, Write
from holdfast.errors import InvalidInput, Unsupported
from holdfast.ledger_reader import find_webhooks
from holdfast.model.ledger_reader import KIND, forget_reader, register_reader
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Fail, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import CaseSkipped, Harness

LEDGER = {Feature.LEDGER}
READERS = {Feature.LEDGER, Feature.REGISTRY, Feature.JOBS}


def _finish_job(h: Harness) -> str:
    reservation = h.reserve_new_job()
    h.must_settle(Ack(reservation.lease))
    return reservation.job.id


def _register(h: Harness, name: str, cursor: str | None, *, wait_for: int | None = None) -> None:
    h.store.do(Write(changes=[register_reader(name, cursor=cursor, wait_for=wait_for)], now=h.now_or_none))


def _trim(h: Harness) -> Trimmed:
    return h.store.do(Trim(ended_for=7 * DAY, ledger_for=30 * DAY, now=h.now_or_none))


@case("L13", needs=LEDGER)
def every_row_has_the_cursor_that_leads_to_the_next_one(h: Harness) -> None:
    ids = [_finish_job(h) for _ in range(4)]
    for page in (h.store.ledger(), h.store.do(LedgerTail())):
        assert_equal([row.job_id for row in page], ids, "the jobs of the rows")
        assert_equal(len(page.cursors), len(page), "one cursor per row")
        for place, cursor in enumerate(page.cursors):
            follows = [row.job_id for row in h.store.ledger(after=cursor)]
            assert_equal(follows, ids[place + 1 :], f"the rows after row {place}")


@case("L13", needs=LEDGER)
def the_last_row_has_the_cursor_of_its_page(h: Harness) -> None:
    for _ in range(3):
        _finish_job(h)
    for limit in (1, 2, 3, 4):
        page = h.store.ledger(limit=limit)
        assert_equal(page.cursors[-1], page.cursor, f"the last cursor of a page of {limit}")
    assert_equal(list(h.store.ledger(after=page.cursor).cursors), [], "the cursors of an empty page")


@case("L13", needs=READERS)
def rows_and_jobs_that_a_registered_reader_has_not_read_are_kept(h: Harness) -> None:
    read = _finish_job(h)
    cursor = h.store.ledger().cursor
    h.advance(2 * HOUR)  # jobs that ended shortly before the unread row may be kept: commits have another order
    unread = _finish_job(h)
    _register(h, "history", cursor)
    h.advance(60 * DAY)
    trimmed = _trim(h)
    assert_equal((trimmed.jobs, trimmed.ledger), (1, 1), "jobs and rows trimmed")
    assert_equal([row.job_id for row in h.ledger()], [unread], "the rows kept")
    assert_equal((h.store.get(read), h.store.get(unread) is not None), (None, True), "the jobs kept")
    _register(h, "history", h.store.ledger(after=cursor).cursor)
    trimmed = _trim(h)
    assert_equal((trimmed.jobs, trimmed.ledger), (1, 1), "jobs and rows trimmed after the reader has advanced")


@case("L13", needs=READERS)
def a_reader_that_has_read_nothing_keeps_everything(h: Harness) -> None:
    _finish_job(h)
    _register(h, "history", None)
    h.advance(60 * DAY)
    assert_equal(_trim(h), Trimmed(), "trimmed before the reader has read")


@case("L13", needs=READERS)
def a_reader_inside_a_page_keeps_the_rest_of_it(h: Harness) -> None:
    ids = [_finish_job(h) for _ in range(3)]
    _register(h, "history", h.store.ledger().cursors[1])
    h.advance(60 * DAY)
    assert_equal(_trim(h).ledger, 2, "rows trimmed")
    assert_equal([row.job_id for row in h.ledger()], ids[2:], "the rows kept")


@case("L13", needs=READERS)
def the_slowest_registered_reader_counts_until_its_registration_expires(h: Harness) -> None:
    _finish_job(h)
    _register(h, "slow", None, wait_for=40 * DAY)
    _register(h, "quick", h.store.ledger().cursor)
    h.advance(40 * DAY - 1)
    assert_equal(_trim(h), Trimmed(), "trimmed a microsecond before the registration expires")
    h.advance(1)
    trimmed = _trim(h)
    assert_equal(
        (trimmed.jobs, trimmed.ledger, trimmed.registry),
        (1, 1, 1),
        "jobs, rows and registrations trimmed when it has expired",
    )


@case("L13", needs=READERS)
def a_removed_reader_keeps_nothing(h: Harness) -> None:
    _finish_job(h)
    _register(h, "gone", None)
    h.store.do(Write(changes=[forget_reader("gone")], now=h.now_or_none))
    h.advance(60 * DAY)
    trimmed = _trim(h)
    assert_equal((trimmed.jobs, trimmed.ledger), (1, 1), "jobs and rows trimmed")


@case("L13", needs=READERS)
def a_purge_waits_for_a_reader_that_has_not_read_the_ending(h: Harness) -> None:
    first, second = h.reserve_new_job(), h.reserve_new_job()
    h.must_settle(Fail(first.lease, reason="no"))
    _register(h, "callbacks", h.store.ledger().cursor)
    h.advance(SECOND)
    h.must_settle(Fail(second.lease, reason="no"))
    ids = first.job.id, second.job.id
    assert_equal(h.purge(*ids), [True, False], "purged before the reader has read the second ending")
    assert_equal(h.get(ids[1]).dead_reason, "no", "the reason of the job that stays")
    _register(h, "callbacks", h.store.ledger().cursor)
    assert_equal(h.purge(*ids), [False, True], "purged after the reader has read it")


@case("L13", needs=READERS)
def a_purge_waits_for_a_reader_of_an_earlier_attempt(h: Harness) -> None:
    """The reader sees the rows of a job in their order: it has not read the last one if it misses an earlier one."""
    reservation = h.reserve_new_job(max_attempts=2)
    _register(h, "callbacks", h.store.ledger().cursor)
    h.must_settle(Retry(reservation.lease))
    h.must_settle(Ack(h.reserve_one().lease))
    page = h.store.ledger()
    _register(h, "callbacks", page.cursors[0])
    assert_equal(h.purge(reservation.job.id), [False], "purged while the ack is unread")
    _register(h, "callbacks", page.cursors[1])
    assert_equal(h.purge(reservation.job.id), [True], "purged when all is read")


@case("L13", needs=READERS)
def an_unreadable_reader_removes_nothing(h: Harness) -> None:
    job_id = _finish_job(h)
    h.store.do(Write(changes=[Change(kind=KIND, key="history", value=b"at the end")], now=h.now_or_none))
    h.advance(400 * DAY)
    with assert_raises(InvalidInput, "a trim with an unreadable reader"):
        _trim(h)
    with assert_raises(InvalidInput, "a purge with an unreadable reader"):
        h.purge(job_id)
    h.get(job_id)


@case("L13", needs=LEDGER)
def the_webhooks_of_jobs_are_found_in_any_state(h: Harness) -> None:
    try:
        done = h.reserve_new_job(webhook="https://example.org/done")
    except Unsupported as error:
        raise CaseSkipped("this driver has no webhooks") from error
    h.must_settle(Ack(done.lease))
    ready = h.enqueue_job(webhook="https://example.org/ready")
    plain = h.enqueue_job()
    wanted = {done.job.id: "https://example.org/done", ready.id: "https://example.org/ready"}
    assert_equal(find_webhooks(h.store, [done.job.id, ready.id, plain.id, "unknown"]), wanted, "the webhooks")
