"""``holdfast ledger`` reads the end of a long ledger, and only as much of it as it shows."""

import pytest

import holdfast
from holdfast.cli.commands.ledger import PAGE_SIZE, last_rows
from holdfast.drivers.engine import Engine
from holdfast.drivers.requests import Ledger, LedgerEnd, LedgerTail
from holdfast.model.job import JobRecord
from holdfast.model.settlement import Ack

ROWS = 5 * PAGE_SIZE + 7


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    postgres = request.param == "postgres"
    url = request.getfixturevalue("postgres_database")() if postgres else f"sqlite:///{tmp_path}/ledger.db"
    with holdfast.connect(url) as opened:
        for start in range(0, ROWS, PAGE_SIZE):
            numbers = range(start, min(start + PAGE_SIZE, ROWS))
            opened.enqueue(
                [
                    JobRecord(id=f"{n:06}", type="rare" if n % 2000 == 5 else "t", queue="q", payload=b"", created_at=1)
                    for n in numbers
                ]
            )
            held = opened.reserve(["q"], limit=PAGE_SIZE, lease_for=10**9)
            assert opened.settle([Ack(one.lease) for one in held]) == [None] * len(numbers)
        yield opened


@pytest.fixture
def rows_read(monkeypatch):
    """The sizes of the pages that the drivers returned, one after the other."""
    sizes = []
    execute = Engine.execute

    def count(self, request):
        answer = execute(self, request)
        if isinstance(request, Ledger | LedgerTail):
            sizes.append(len(answer))
        return answer

    monkeypatch.setattr(Engine, "execute", count)
    return sizes


def test_only_the_shown_rows_are_read(store, rows_read):
    rows, cursor = last_rows(store, 20, lambda _: True)
    assert [row.job_id for row in rows] == [f"{n:06}" for n in range(ROWS - 20, ROWS)]
    assert cursor == store.do(LedgerEnd())
    assert rows_read == [20]


def test_a_filter_reads_back_as_far_as_it_must(store, rows_read):
    rows, _ = last_rows(store, 2, lambda row: row.type == "rare")
    assert [row.job_id for row in rows] == ["002005", "004005"]
    assert sum(rows_read) < ROWS
    rows, _ = last_rows(store, 20, lambda row: row.type == "rare")
    assert [row.job_id for row in rows] == ["000005", "002005", "004005"]


def test_all_rows_are_shown_if_the_limit_is_larger(store):
    rows, _ = last_rows(store, 10_000, lambda _: True)
    assert [row.job_id for row in rows] == [f"{n:06}" for n in range(ROWS)]
