"""The ledger and the jobs of a store, read in chunks. Runs on the Spark driver, in a sync or an audit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from holdfast.clock import SystemClock
from holdfast.drivers.requests import Diagnose, Inspect
from holdfast.drivers.store import Store
from holdfast.model import bounds
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import LedgerRow

PAGE_ROWS = bounds.MAX_BATCH_ITEMS
CHUNK_ROWS = 200_000  # ledger rows that are in memory at a time
FIRST_PAGE_JOBS = 100  # ended jobs

MAX_REREADS = 10  # of jobs that changed while they were read; more often changes no job that people requeue

_ENDED = JobFilter(states=(State.DONE, State.DEAD, State.CANCELLED))
_WAITING = JobFilter(states=(State.READY, State.INFLIGHT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Consecutive ledger rows, and the jobs that ended in them. The last chunk also has all waiting jobs."""

    rows: list[LedgerRow]
    records: list[JobRecord]
    cursor: str | None
    cursors: Sequence[str] = ()  # of the rows
    arrivals: Mapping[str, int] = field(default_factory=dict)  # of the jobs with a domain, by id
    waiting: list[JobRecord] | None = None
    snapshot: int | None = None  # rows of all chunks that were read before the waiting jobs


def read_chunks(store: Store, after: str | None, *, size: int = CHUNK_ROWS) -> Iterator[Chunk]:
    """Return everything that the ledger has after a cursor, and the waiting jobs.

    The ledger is read to its end, then the waiting jobs, then the ledger to its end again. So a job that ended before
    it could be read as waiting has its ending in these rows. A job of earlier rows that neither waits nor has an ending
    in these rows is lost. The ended jobs of the last chunk are as its rows left them.
    """
    reader = _LedgerReader(store, after, size)
    yield from reader.read_to_end()
    snapshot = reader.rows_read
    waiting = [job for page in _pages(store, _WAITING) for job in page]
    yield from reader.read_to_end()
    yield reader.take_last_chunk(waiting, snapshot)


class _LedgerReader:
    def __init__(self, store: Store, cursor: str | None, size: int) -> None:
        self.rows_read = 0
        self._store = store
        self._cursor = cursor
        self._size = size
        self._rows: list[LedgerRow] = []
        self._cursors: list[str] = []

    def read_to_end(self) -> Iterator[Chunk]:
        """Return full chunks; the remaining rows stay for the next chunk. A page that is not full is the end."""
        while True:
            page = self._store.ledger(self._cursor, PAGE_ROWS)
            self._cursor = page.cursor
            self._rows += page.items
            self._cursors += page.cursors
            self.rows_read += len(page.items)
            if len(self._rows) >= self._size:
                yield self.take_chunk()
            if len(page.items) < PAGE_ROWS:
                return

    def take_chunk(self) -> Chunk:
        """Return the rows that were read and not returned yet, and the jobs that ended in them."""
        rows, self._rows = self._rows, []
        cursors, self._cursors = self._cursors, []
        records = _read_ended(self._store, _ended_ids(rows))
        arrivals = _read_arrivals(self._store, records)
        return Chunk(rows=rows, records=records, cursor=self._cursor, cursors=cursors, arrivals=arrivals)

    def take_last_chunk(self, waiting: list[JobRecord], snapshot: int) -> Chunk:
        """Return the remaining rows, the jobs that ended in them, and the waiting jobs.

        If rows that were written meanwhile change a job that was read, these rows are added and the job is read again.
        """
        records: dict[str, JobRecord] = {}
        arrivals: dict[str, int] = {}
        changed: set[str] | None = None  # None: all jobs
        for _ in range(MAX_REREADS):
            ended = _ended_ids(self._rows)
            read = _read_ended(self._store, ended if changed is None else [*changed.intersection(ended)])
            records.update((job.id, job) for job in read)
            arrivals.update(_read_arrivals(self._store, read))
            page = self._store.ledger(self._cursor, PAGE_ROWS)
            changed = {row.job_id for row in page.items}
            if changed.isdisjoint(records):
                break
            for job_id in changed:
                records.pop(job_id, None)
            self._rows += page.items
            self._cursors += page.cursors
            self._cursor = page.cursor
        return Chunk(
            rows=self._rows,
            cursors=self._cursors,
            records=list(records.values()),
            cursor=self._cursor,
            arrivals={**_read_arrivals(self._store, waiting), **arrivals},
            waiting=waiting,
            snapshot=snapshot,
        )


def _ended_ids(rows: Iterable[LedgerRow]) -> list[str]:
    """Return the jobs that have ended after these rows."""
    states = {row.job_id: row.state for row in rows}  # the last state of each job
    return [job_id for job_id, state in states.items() if state is not None and state.has_ended]


def _read_arrivals(store: Store, jobs: Iterable[JobRecord]) -> dict[str, int]:
    """Return the places of jobs with a domain in the order of arrival (L11); a requeued job arrives again."""
    arrivals: dict[str, int] = {}
    ids = [job.id for job in jobs if job.domain is not None]
    for start in range(0, len(ids), PAGE_ROWS):
        found = store.do(Inspect(job_ids=ids[start : start + PAGE_ROWS], payloads=False))
        arrivals.update((job_id, each.arrival) for job_id, each in found.items())
    return arrivals


def read_all_ended(store: Store) -> Iterator[list[JobRecord]]:
    """Return every ended job of the store, page by page."""
    yield from _pages(store, _ENDED)


def _read_ended(store: Store, ids: Sequence[str]) -> list[JobRecord]:
    """Return the ended jobs with these ids, ordered by id, without those that were purged or trimmed since.

    Jobs that ended together were mostly enqueued together, and ids grow with time. So this reads pages of ended jobs,
    from one wanted id to the next wanted id that no page contained. The page size follows the number of hits.
    """
    records: list[JobRecord] = []
    remaining_ids = deque(sorted(ids))
    size = FIRST_PAGE_JOBS
    while remaining_ids:
        first = remaining_ids.popleft()
        record = store.get(first)
        records += [] if record is None else [record]
        if not remaining_ids:
            break
        page = store.find(_ENDED, limit=size, after=first)
        wanted = set(islice(remaining_ids, size))  # a page cannot contain more of them
        hits = [record for record in page.items if record.id in wanted]
        records += hits
        if page.cursor is None:
            break
        while remaining_ids and remaining_ids[0] <= page.cursor:
            remaining_ids.popleft()
        size = min(PAGE_ROWS, max(FIRST_PAGE_JOBS // 10, 4 * len(hits)))
    return records


def _pages(store: Store, where: JobFilter) -> Iterator[list[JobRecord]]:
    after: str | None = None
    while True:
        page = store.find(where, limit=PAGE_ROWS, after=after)
        yield page.items
        after = page.cursor
        if after is None:
            return


def first_certain_instant(store: Store, first: LedgerRow | None) -> int | None:
    """Return the instant before which the ledger may lack rows; None if it has its first row.

    ``first`` is the oldest row that is left: rows that were removed ended before it.
    """
    if store.do(Diagnose()).trimmed_rows == 0:
        return None
    return SystemClock().now() if first is None else first.ended_at
