"""A scan of the ledger returns the rows and cursors of ``Admin.ledger``, and passes no running transaction."""

import psycopg
import pytest

from holdfast.drivers.requests import LedgerMarks, ReadColumns, ReadTuples, Trim
from holdfast.errors import InvalidInput, LedgerTrimmed
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import LedgerRow
from holdfast.model.settlement import Ack, Fail
from tests.postgres.conftest import NOW, open_store

MINUTE = 60_000_000
NAMES = list(LedgerRow.__struct_fields__)
ACK = "SELECT * FROM holdfast.ack('main', %s, %s, %s, NULL, NULL, NULL)"


def end_jobs(store, job, count, *, each=3):
    """Write ``count`` ledger rows, ``each`` of them in one transaction."""
    store.enqueue([job() for _ in range(count)], now=NOW)
    reserved = store.reserve(["q"], limit=count, lease_for=MINUTE, now=NOW)
    for start in range(0, count, each):
        one, *others = (each.lease for each in reserved[start : start + each])
        store.settle([Fail(one, reason='it said "no",\nand "" meant it', error="é"), *map(Ack, others)], now=NOW)


def tuples_of(rows):
    return [tuple(getattr(row, name) for name in NAMES) for row in rows]


def without_positions(tuples):
    return [row[: len(NAMES)] for row in tuples]


def test_ledger_tuples_are_the_rows_of_a_page(store, job):
    end_jobs(store, job, 20)
    page = store.ledger(None, 7)
    tuples, cursor = store.do(ReadTuples(limit=7))
    assert (without_positions(tuples), cursor) == (tuples_of(page.items), page.cursor)
    rest, end = store.do(ReadTuples(after=cursor, limit=1000))
    assert without_positions(rest) == tuples_of(store.ledger(cursor, 1000).items)
    assert store.do(ReadTuples(after=end, limit=10)) == ([], end)


@pytest.mark.parametrize(("every", "most"), [(3, 100), (3, 7), (7, 7), (7, 5), (5, 20), (100, 100), (20, 1)])
def test_ledger_marks_are_the_cursors_of_pages(store, job, every, most):
    end_jobs(store, job, 20)
    wanted, cursor, left = [], None, most
    while left and (page := store.ledger(cursor, min(every, left))).items:
        cursor, left = page.cursor, left - len(page.items)
        wanted.append((cursor, len(page.items)))
    assert store.do(LedgerMarks(after=None, every=every, most=most)) == wanted


@pytest.mark.parametrize(
    "where", [JobFilter(), JobFilter(queue="q", states=(State.DONE, State.DEAD)), JobFilter(queue="no")]
)
@pytest.mark.parametrize("limit", [1, 7, 12, 1000])
def test_job_columns_hold_the_jobs_that_find_returns(store, job, where, limit):
    end_jobs(store, job, 20)
    store.enqueue([job(meta={"a": [1]}, idempotency_key="k"), job(queue="other", name="é", run_at=NOW)], now=NOW)
    names = list(JobRecord.__struct_fields__)
    after: str | None = None
    while True:
        page = store.find(where, limit=limit, after=after)
        columns, cursor = store.do(ReadColumns(where=where, names=names, limit=limit, after=after))
        assert [list(column) for column in columns] == [[getattr(one, name) for one in page.items] for name in names]
        assert cursor == page.cursor
        if cursor is None:
            break
        after = cursor


def test_job_columns_must_be_fields_of_a_record(store):
    with pytest.raises(InvalidInput, match="wanted fields of a JobRecord, got token"):
        store.do(ReadColumns(where=JobFilter(), names=["id", "token"], limit=1))


def test_an_empty_ledger_has_no_marks(store):
    assert store.do(LedgerMarks(after=None, every=10, most=100)) == []
    assert store.do(ReadTuples(limit=10))[0] == []


def test_a_scan_stops_before_a_running_transaction(url, job):
    store = open_store(url, caller_clock=True, horizon_timeout_seconds=0.05)
    end_jobs(store, job, 3)
    store.enqueue([job() for _ in range(2)], now=NOW)
    slow, quick = store.reserve(["q"], limit=2, lease_for=MINUTE, now=NOW)
    [(before, _)] = store.do(LedgerMarks(after=None, every=10, most=100))
    with psycopg.connect(url) as late:
        late.execute(ACK, [NOW, [slow.job.id], [slow.lease.token]])
        store.settle([Ack(quick.lease)], now=NOW)  # begins later and commits earlier
        assert store.do(LedgerMarks(after=before, every=10, most=100)) == []
        assert store.do(ReadTuples(after=before, limit=10)) == ([], before)
        late.commit()
    assert [rows for _, rows in store.do(LedgerMarks(after=before, every=10, most=100))] == [2]
    assert [row[0] for row in store.do(ReadTuples(after=before, limit=10))[0]] == [slow.job.id, quick.job.id]
    store.close()


def test_a_scan_behind_retention_raises_ledger_trimmed(store, job):
    end_jobs(store, job, 6)
    [(first, _), *_] = store.do(LedgerMarks(after=None, every=2, most=100))
    store.do(Trim(ledger_for=1, now=NOW + 10**12))
    for scan in (
        lambda: store.do(ReadTuples(after=first, limit=10)),
        lambda: store.do(LedgerMarks(after=first, every=10, most=10)),
    ):
        with pytest.raises(LedgerTrimmed):
            scan()
    assert store.do(LedgerMarks(after=None, every=10, most=10)) == []


def test_a_cursor_of_another_server_is_refused(store):
    for cursor in ("7", "-", "999999999999-1"):
        with pytest.raises(InvalidInput):
            store.do(ReadTuples(after=cursor, limit=10))


def test_each_space_has_its_own_ledger(store, job):
    end_jobs(store, job, 4)
    assert store.space("other").do(LedgerMarks(after=None, every=10, most=10)) == []


def test_the_cost_of_a_page_does_not_depend_on_its_position(store, session):
    """Every statement of a scan reads a range of the primary key: none sorts, none reads the whole table."""
    session.execute(
        "INSERT INTO ledger (space, job_id, type, queue, attempt, worker, enqueued_at, available_at, ended_at, ending, "
        "detail, error) SELECT 'main', n, 't', 'q', 1, '', 0, 0, 0, 'purged', '', '' FROM generate_series(1, 20000) n"
    )
    session.execute("ANALYZE ledger")
    [(cursor, _), *_] = store.do(LedgerMarks(after=None, every=10_000, most=10_000))
    xid, seq = map(int, cursor.split("-"))
    parameters = {
        "space": "main",
        "horizon": xid + 1,
        "xid": xid,
        "seq": seq,
        "limit": 100,
        "every": 10,
        "marks": 3,
        "most": 9,
    }
    for name in ("limits", "rows", "marks", "rest"):
        text = store.engine._database.statements.query(f"ledger/{name}")
        plan = "\n".join(row[0] for row in session.execute(f"EXPLAIN {text}", parameters))
        assert "Seq Scan on ledger" not in plan, plan
        assert name in {"marks", "rest"} or "Sort" not in plan, plan
