"""A store's ledger and jobs, read piece by piece."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from holdfast.drivers.contract import JobFilter, JobScan, Store
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import LedgerRow

PAGE = bounds.MAX_BATCH_ITEMS
CHUNK = 200_000  # ledger rows that are held in memory at a time

FIRST_PAGE = 100  # ended jobs

_ENDED = JobFilter(states=(State.DONE, State.DEAD, State.CANCELLED))
_LIVE = JobFilter(states=(State.READY, State.INFLIGHT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Ledger rows that follow one another, and the jobs that ended in them; in the last one, those that wait."""

    rows: list[LedgerRow]
    records: list[JobRecord]
    cursor: str | None
    waiting: list[JobRecord] | None = None
    snapshot: int | None = None  # rows of this and of earlier chunks that were read before the waiting jobs


def chunks(store: Store, after: str | None, *, size: int = CHUNK) -> Iterator[Chunk]:
    """All that the ledger has behind a cursor, to its end.

    The waiting jobs are read when the ledger has been read to its end, and then the ledger is read to its end again:
    so a job that ended before its turn to be looked at has its ending in these rows, and one that is neither among
    those that wait nor ended here, though earlier rows know it, is lost.
    """
    reader = _Reader(store, after, size)
    yield from reader.to_the_end()
    snapshot = reader.read
    waiting = _waiting(store)
    yield from reader.to_the_end()
    yield reader.chunk(waiting, snapshot)


class _Reader:
    def __init__(self, store: Store, cursor: str | None, size: int) -> None:
        self.read = 0
        self._store = store
        self._cursor = cursor
        self._size = size
        self._rows: list[LedgerRow] = []

    def to_the_end(self) -> Iterator[Chunk]:
        """Full chunks; what is left over is kept for the next. A page that is not full is the end, at that moment."""
        while True:
            page = self._store.ledger(self._cursor, PAGE)
            self._cursor = page.cursor
            self._rows += page.items
            self.read += len(page.items)
            if len(self._rows) >= self._size:
                yield self.chunk()
            if len(page.items) < PAGE:
                return

    def chunk(self, waiting: list[JobRecord] | None = None, snapshot: int | None = None) -> Chunk:
        """What is left over."""
        rows, self._rows = self._rows, []
        last = {row.job_id: row.state for row in rows}
        records = _ended(
            self._store, [job_id for job_id, state in last.items() if state is not None and state.has_ended]
        )
        return Chunk(rows=rows, records=records, cursor=self._cursor, waiting=waiting, snapshot=snapshot)


def _ended(store: Store, wanted: Sequence[str]) -> list[JobRecord]:
    """The records of these ids, in the order of ids; some are purged or trimmed by now.

    Jobs that ended together mostly came together, and ids grow with time: so pages of ended jobs are read, as large as
    the last one was of use, from one wanted id to the next that no page has brought.
    """
    found: list[JobRecord] = []
    left = deque(sorted(wanted))
    size = FIRST_PAGE
    while left:
        first = left.popleft()
        record = store.get(first)
        found += [] if record is None else [record]
        if not left:
            break
        page = store.find(_ENDED, limit=size, after=first)
        known = set(islice(left, size))  # a page cannot bring more of them
        hits = [record for record in page.items if record.id in known]
        found += hits
        if page.cursor is None:
            break
        while left and left[0] <= page.cursor:
            left.popleft()
        size = min(PAGE, max(FIRST_PAGE // 10, 4 * len(hits)))
    return found


def _waiting(store: Store) -> list[JobRecord]:
    found: list[JobRecord] = []
    after: str | None = None
    while True:
        page = store.find(_LIVE, limit=PAGE, after=after)
        found += page.items
        after = page.cursor
        if after is None:
            return found


# In columns -----------------------------------------------------------------------------------------------------


def pages(
    store: Store, where: JobFilter, names: Sequence[str], *, limit: int, after: str | None, upto: str | None
) -> Iterator[list[Sequence[object]]]:
    """These fields of the jobs that a filter finds in a range of ids, in order, some columns at a time."""
    cursor = after
    while True:
        columns, cursor = _page(store, where, ["id", *names], limit, cursor)
        ids: Any = columns[0]
        inside = len(ids) if upto is None else bisect_right(ids, upto)
        if inside:
            yield [column[:inside] for column in columns[1:]]
        if cursor is None or inside < len(ids):
            return


def _page(
    store: Store, where: JobFilter, names: Sequence[str], limit: int, after: str | None
) -> tuple[Sequence[Sequence[object]], str | None]:
    if isinstance(store, JobScan):
        return store.job_columns(where, names, limit=limit, after=after)
    page = store.find(where, limit=limit, after=after)
    return [[getattr(job, name) for job in page.items] for name in names], page.cursor
