"""A scan of the ledger gives the rows and cursors that pages give, and passes no transaction that is not over."""

from dataclasses import fields

import psycopg
import pytest

from holdfast.drivers.contract import JobFilter, JobScan, LedgerScan
from holdfast.drivers.postgres import tools
from holdfast.errors import InvalidInput, LedgerTrimmed
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import LedgerRow
from holdfast.model.settlement import Ack, Fail
from tests.postgres.conftest import NOW

MINUTE = 60_000_000
NAMES = [field.name for field in fields(LedgerRow)]
ACK = "SELECT * FROM holdfast.ack_1('main', %s, %s, %s, NULL, NULL, NULL)"


def end(store, job, count, *, each=3):
    """So many endings, a few in each transaction."""
    store.enqueue([job() for _ in range(count)], now=NOW)
    reserved = store.reserve(["q"], limit=count, lease_for=MINUTE, now=NOW)
    for start in range(0, count, each):
        one, *others = (each.lease for each in reserved[start : start + each])
        store.settle([Fail(one, reason='it said "no",\nand "" meant it', error="é"), *map(Ack, others)], now=NOW)


def tuples_of(rows):
    return [tuple(getattr(row, name) for name in NAMES) for row in rows]


def told(tuples):
    return [row[: len(NAMES)] for row in tuples]


def test_tuples_are_the_rows_of_a_page(store, job):
    end(store, job, 20)
    assert isinstance(store, LedgerScan)
    page = store.ledger(None, 7)
    tuples, cursor = store.ledger_tuples(None, 7)
    assert (told(tuples), cursor) == (tuples_of(page.items), page.cursor)
    rest, end_of_it = store.ledger_tuples(cursor, 1000)
    assert told(rest) == tuples_of(store.ledger(cursor, 1000).items)
    assert store.ledger_tuples(end_of_it, 10) == ([], end_of_it)


@pytest.mark.parametrize(("every", "most"), [(3, 100), (3, 7), (7, 7), (7, 5), (5, 20), (100, 100), (20, 1)])
def test_marks_are_the_cursors_of_pages(store, job, every, most):
    end(store, job, 20)
    wanted, cursor, left = [], None, most
    while left and (page := store.ledger(cursor, min(every, left))).items:
        cursor, left = page.cursor, left - len(page.items)
        wanted.append((cursor, len(page.items)))
    assert store.ledger_marks(None, every=every, most=most) == wanted


@pytest.mark.parametrize(
    "where", [JobFilter(), JobFilter(queue="q", states=(State.DONE, State.DEAD)), JobFilter(queue="no")]
)
@pytest.mark.parametrize("limit", [1, 7, 12, 1000])
def test_columns_of_jobs_are_those_that_a_filter_finds(store, job, where, limit):
    end(store, job, 20)
    store.enqueue([job(meta={"a": [1]}, idempotency_key="k"), job(queue="other", name="é", run_at=NOW)], now=NOW)
    assert isinstance(store, JobScan)
    names = [field.name for field in fields(JobRecord)]
    after: str | None = None
    while True:
        page = store.find(where, limit=limit, after=after)
        columns, cursor = store.job_columns(where, names, limit=limit, after=after)
        assert [list(column) for column in columns] == [[getattr(one, name) for one in page.items] for name in names]
        assert cursor == page.cursor
        if cursor is None:
            break
        after = cursor


def test_columns_of_jobs_are_fields_of_a_record(store):
    with pytest.raises(InvalidInput, match="wanted fields of a JobRecord, got token"):
        store.job_columns(JobFilter(), ["id", "token"], limit=1)


def test_an_empty_ledger_has_no_marks(store):
    assert store.ledger_marks(None, every=10, most=100) == []
    assert store.ledger_tuples(None, 10)[0] == []


def test_a_transaction_that_is_not_over_ends_the_scan(url, store, job, monkeypatch):
    monkeypatch.setattr(tools, "LEDGER_PATIENCE", 0.05)
    end(store, job, 3)
    store.enqueue([job() for _ in range(2)], now=NOW)
    slow, quick = store.reserve(["q"], limit=2, lease_for=MINUTE, now=NOW)
    [(before, _)] = store.ledger_marks(None, every=10, most=100)
    with psycopg.connect(url) as late:
        late.execute(ACK, [NOW, [slow.job.id], [slow.lease.token]])
        store.settle([Ack(quick.lease)], now=NOW)  # later, and committed before
        assert store.ledger_marks(before, every=10, most=100) == []
        assert store.ledger_tuples(before, 10) == ([], before)
        late.commit()
    assert [rows for _, rows in store.ledger_marks(before, every=10, most=100)] == [2]
    assert [row[0] for row in store.ledger_tuples(before, 10)[0]] == [slow.job.id, quick.job.id]


def test_rows_that_retention_took_are_not_passed_over(store, job):
    end(store, job, 6)
    [(first, _), *_] = store.ledger_marks(None, every=2, most=100)
    store.trim(ledger_for=1, now=NOW + 10**12)
    for scan in (lambda: store.ledger_tuples(first, 10), lambda: store.ledger_marks(first, every=10, most=10)):
        with pytest.raises(LedgerTrimmed):
            scan()
    assert store.ledger_marks(None, every=10, most=10) == []


def test_a_cursor_of_another_server_is_refused(store):
    for strange in ("7", "-", "999999999999-1"):
        with pytest.raises(InvalidInput):
            store.ledger_tuples(strange, 10)


def test_each_space_has_a_ledger_of_its_own(store, job):
    end(store, job, 4)
    assert store.space("other").ledger_marks(None, every=10, most=10) == []


def test_a_page_costs_the_same_wherever_it_stands(store, session):
    """Every statement of a scan walks the primary key: none sorts, and none reads the whole table."""
    session.execute(
        "INSERT INTO ledger (space, job_id, type, queue, attempt, worker, enqueued_at, available_at, ended_at, ending, "
        "detail, error) SELECT 'main', n, 't', 'q', 1, '', 0, 0, 0, 'purged', '', '' FROM generate_series(1, 20000) n"
    )
    session.execute("ANALYZE ledger")
    [(cursor, _), *_] = store.ledger_marks(None, every=10_000, most=10_000)
    xid, seq = map(int, cursor.split("-"))
    asked = {
        "space": "main",
        "horizon": xid + 1,
        "xid": xid,
        "seq": seq,
        "limit": 100,
        "every": 10,
        "marks": 3,
        "most": 9,
    }
    for name in ("ledger_limits", "ledger_rows", "ledger_marks", "ledger_rest"):
        text = store._statements.query(name)
        plan = "\n".join(row[0] for row in session.execute(f"EXPLAIN {text}", asked))
        assert "Seq Scan on ledger" not in plan, plan
        assert name in {"ledger_marks", "ledger_rest"} or "Sort" not in plan, plan
