"""A reader of the ledger never passes a transaction that may still write in front of it."""

import psycopg
import pytest

import holdfast
from holdfast.drivers.postgres import tools
from holdfast.errors import InvalidInput
from holdfast.model.settlement import Ack


@pytest.fixture
def durable(server, monkeypatch):
    """On a server of its own: a transaction that stays open there holds up nobody else's ledger."""
    monkeypatch.setattr(tools, "LEDGER_PATIENCE", 0.05)
    store = holdfast.connect(server.create_database("ledger"))
    yield server.url_of("ledger"), store
    store.close()


def test_rows_of_a_transaction_that_commits_late_are_never_skipped(durable, job):
    url, store = durable
    store.enqueue([job(id=name) for name in "abc"])
    held = {one.job.id: one.lease for one in store.reserve(["q"], limit=3, lease_for=60_000_000)}
    store.settle([Ack(held["a"])])
    first = store.ledger()
    assert [row.job_id for row in first] == ["a"]

    with psycopg.connect(url) as late:
        late.execute("SELECT * FROM holdfast.ack_1('main', NULL, %s, %s, NULL, NULL, NULL)", [["b"], [held["b"].token]])
        store.settle([Ack(held["c"])])  # later, and committed before
        waiting = store.ledger(after=first.cursor)
        assert waiting.items == []
        assert waiting.cursor == first.cursor
        late.commit()
    rest = store.ledger(after=waiting.cursor)
    assert [row.job_id for row in rest] == ["b", "c"]
    assert [row.job_id for row in store.ledger()] == ["a", "b", "c"]


def test_trimming_stops_before_a_transaction_that_is_not_over(server, monkeypatch, job):
    monkeypatch.setattr(tools, "LEDGER_PATIENCE", 0.05)
    url = server.create_database("trim")
    store = holdfast.connect(url, caller_clock=True)
    now = 1_800_000_000_000_000
    store.enqueue([job(id=name) for name in "ab"], now=now)
    a, b = store.reserve(["q"], limit=2, lease_for=1000, now=now)
    with psycopg.connect(url) as late:
        late.execute(
            "SELECT * FROM holdfast.ack_1('main', %s, %s, %s, NULL, NULL, NULL)", [now, [a.job.id], [a.lease.token]]
        )
        store.settle([Ack(b.lease)], now=now)
        assert store.trim(ledger_for=1, now=now + 10**12).ledger == 0
        late.commit()
    assert [row.job_id for row in store.ledger()] == ["a", "b"]
    assert store.trim(ledger_for=1, now=now + 10**12).ledger == 2
    store.close()


def test_a_cursor_of_another_server_is_refused(store):
    with pytest.raises(InvalidInput, match="cursor"):
        store.ledger(after=f"{2**60}-1")


def test_a_transaction_in_another_database_holds_up_no_ledger(server, monkeypatch, job):
    monkeypatch.setattr(tools, "LEDGER_PATIENCE", 0)
    store = holdfast.connect(server.create_database("beside"))
    with psycopg.connect(server.url) as elsewhere:
        elsewhere.execute("SELECT pg_current_xact_id()")
        store.enqueue([job()])
        [held] = store.reserve(["q"], limit=1, lease_for=60_000_000)
        store.settle([Ack(held.lease)])
        assert len(store.ledger()) == 1
    store.close()
