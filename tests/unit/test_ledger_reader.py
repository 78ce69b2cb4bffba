"""``LedgerReader``: shared cursors, and what a reader does together with an enqueue."""

from __future__ import annotations

import pytest

from holdfast import Client, JobRequest, connect
from holdfast.driver import SECOND, Ack, LedgerReader, Store, find_webhooks
from holdfast.drivers.requests import Enqueue, Ledger, Scan, Trim, Write
from holdfast.errors import LedgerTrimmed, Unsupported, WriteRefused
from holdfast.model.ledger_reader import KIND, parse_reader, register_reader
from holdfast.wire.records import to_record
from tests.requests_seen import answer_requests


@pytest.fixture
def store():
    with connect("memory://") as opened:
        yield opened


def run_jobs(store: Store, count: int) -> list[str]:
    ids = Client(store).enqueue([JobRequest(type="step", payload=number) for number in range(count)])
    batch = store.reserve(["default"], limit=count, lease_for=30 * SECOND)
    store.settle([Ack(reservation.lease) for reservation in batch])
    return [answer.id for answer in ids]


def test_a_reader_continues_after_the_row_that_it_has_stored(store):
    ids = run_jobs(store, 3)
    reader = LedgerReader(store, "billing")
    rows = reader.read()
    assert [row.job_id for _, row in rows] == ids
    assert reader.advance(rows[1][0])
    assert [row.job_id for _, row in LedgerReader(store, "billing").read()] == ids[2:]


def test_rows_that_were_not_stored_are_read_again(store):
    ids = run_jobs(store, 2)
    reader = LedgerReader(store, "billing")
    assert [row.job_id for _, row in reader.read(limit=1)] == ids[:1]
    assert [row.job_id for _, row in reader.read(limit=1)] == ids[:1]


def test_of_two_processes_with_the_same_rows_one_is_refused(store):
    run_jobs(store, 2)
    first, second = LedgerReader(store, "billing"), LedgerReader(store, "billing")
    cursor = first.read()[-1][0]
    assert second.read()[-1][0] == cursor
    assert first.advance(cursor)
    assert not second.advance(cursor)
    assert second.read() == []


def test_rows_that_another_process_has_read_may_be_trimmed_while_a_reader_reads(store, monkeypatch):
    """The stored cursor is read before the ledger. Meanwhile the other process stores a later one."""
    ids = run_jobs(store, 3)
    first, second = LedgerReader(store, "billing"), LedgerReader(store, "billing")
    cursors = [cursor for cursor, _ in first.read()]
    first.advance(cursors[0])

    def read_late(request, do):
        monkeypatch.undo()
        second.read()
        second.advance(cursors[1])
        store.do(Trim(ledger_for=1))
        return do(request)

    answer_requests(monkeypatch, store, Ledger, read_late)
    assert [row.job_id for _, row in first.read()] == ids[2:]


def test_a_reader_whose_rows_were_trimmed_is_told(store):
    run_jobs(store, 2)
    reader = LedgerReader(store, "billing")
    cursor = reader.read()[0][0]
    reader.forget()
    store.do(Trim(ledger_for=1))
    store.do(Write(changes=[register_reader("billing", cursor=cursor)]))
    with pytest.raises(LedgerTrimmed):
        reader.read()


def test_an_enqueue_and_the_cursor_are_stored_together(store):
    run_jobs(store, 1)
    first, second = LedgerReader(store, "callbacks"), LedgerReader(store, "callbacks")
    [(cursor, row)] = first.read()
    second.read()
    job = to_record(JobRequest(type="callback", payload=row.job_id, queue="system"), now=1)
    store.do(Enqueue(jobs=[job], writes=[first.advance_with(cursor)]))
    assert first.read() == []
    other = to_record(JobRequest(type="callback", payload=row.job_id, queue="system"), now=1)
    with pytest.raises(WriteRefused):
        store.do(Enqueue(jobs=[other], writes=[second.advance_with(cursor)]))
    assert store.get(other.id) is None


def test_a_new_reader_may_begin_at_the_end(store):
    run_jobs(store, 2)
    reader = LedgerReader(store, "late", begin_at_end=True)
    assert reader.read() == []
    [new] = run_jobs(store, 1)
    assert [row.job_id for _, row in reader.read()] == [new]


def test_readers_are_listed_and_forgotten(store):
    run_jobs(store, 1)
    for name in ("b", "a"):
        LedgerReader(store, name).read()
    registered = Scan(kind=KIND)
    readers = [parse_reader(entry) for entry in store.do(registered)]
    assert [(reader.name, reader.cursor) for reader in readers] == [("a", None), ("b", None)]
    LedgerReader(store, "a").forget()
    assert [entry.key for entry in store.do(registered)] == ["b"]


def test_a_removed_reader_begins_as_a_new_one(store):
    ids = run_jobs(store, 2)
    reader = LedgerReader(store, "billing")
    assert reader.advance(reader.read()[-1][0])
    reader.forget()
    assert [row.job_id for _, row in reader.read()] == ids


def test_jobs_without_a_webhook_are_left_out(store):
    assert find_webhooks(store, [*run_jobs(store, 2), "unknown"]) == {}


def test_a_driver_without_a_ledger_is_refused(store):
    reduced = _WithoutLedger()
    with pytest.raises(Unsupported, match="the ledger"):
        LedgerReader(reduced, "billing")  # type: ignore[arg-type]


class _WithoutLedger:
    def __init__(self) -> None:
        from holdfast.driver import Capabilities, Durability, Feature

        self.capabilities = Capabilities(
            driver="small", durability=Durability.MEMORY, gaps={Feature.LEDGER: "nothing is recorded"}
        )
