"""What the requests of the contract answer, where that is more than a value of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import msgspec

from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued, Note, Reservation
from holdfast.model.ledger import LedgerRow

T = TypeVar("T")


class Stored(msgspec.Struct, frozen=True):
    """The answer of ``Enqueue``: one answer per record; ``reservations`` only if the store has leased the jobs."""

    answers: list[Enqueued]
    reservations: list[Reservation] = []


class Reserved(msgspec.Struct, frozen=True):
    """The answer of ``Reserve``: the jobs, the leases that the call ended, and what the next ``Wait`` takes."""

    reservations: list[Reservation]
    ended: list[LedgerRow] = []
    mark: tuple[int, ...] = ()


class Reaped(msgspec.Struct, frozen=True):
    """The answer of ``Reap``: how many leases it ended, their ledger rows, and one value per reported lease."""

    count: int
    ended: list[LedgerRow] = []
    reported: list[bool] = []


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list. ``cursor`` leads to the next page. It is None at the end of a job list; the ledger has no end.

    A page of the ledger has ``cursors``: one per item, which leads to the item after it. So a reader may stop inside a
    page.
    """

    items: list[T]
    cursor: str | None
    cursors: Sequence[str] = field(default=(), compare=False)

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class JobColumns(NamedTuple):
    """A page of jobs as columns, and its cursor."""

    columns: Sequence[Sequence[object]]
    cursor: str | None


def to_columns(page: Page[JobRecord], names: Sequence[str]) -> JobColumns:
    """Return a page of jobs as columns."""
    return JobColumns([[getattr(job, name) for job in page] for name in names], page.cursor)


class LedgerTuples(NamedTuple):
    """A page of the ledger as tuples, and its cursor."""

    tuples: Sequence[Sequence[object]]
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """The number of jobs of one type in one queue, by state. ``ready`` jobs are due, ``scheduled`` jobs are not.

    ``oldest_ready_age`` says how far the queue is behind: for how many microseconds the oldest of the ready jobs has
    been due, by the store's clock. It is None if no job is ready, and not compared. ``is_estimate`` says that numbers
    of this row are estimates.
    """

    queue: str
    type: str
    ready: int = 0
    scheduled: int = 0
    inflight: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0
    oldest_ready_age: int | None = field(default=None, compare=False)
    is_estimate: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """A job with its lease and its notes, for people. It never contains the token.

    ``arrival`` is the place of the job in the order of arrival; a requeued job arrives again. Compare it only between
    jobs of one call of enqueue. It is not compared itself.
    """

    job: JobRecord
    available_at: int
    worker: str = ""
    fence: int | None = None
    reserved_at: int | None = None
    expires_at: int | None = None
    ended_at: int | None = None
    cancel_requested: bool = False
    note: Note | None = None
    arrival: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """How many rows ``Trim`` removed; ``more`` if it stopped at its limit."""

    jobs: int = 0
    ledger: int = 0
    dedupe: int = 0
    registry: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceRemoval:
    """How many rows ``RemoveSpace`` removed; ``more`` if rows are left."""

    rows: int
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerDelay:
    """The oldest transaction of others that may still write: readers do not see rows that began later than it.

    ``age`` is in microseconds. A prepared transaction has a name, and no process.
    """

    age: int
    pid: int | None
    name: str  # of the program that opened it, or of the prepared transaction
    state: str  # of its session, such as ``idle in transaction``


class TableHealth(NamedTuple):
    """The hot tables of a database with vacuum, by the statistics of its server."""

    live_rows: int
    dead_rows: int  # not yet removed by vacuum
    oldest_transaction: int | None  # its age in microseconds: vacuum cannot remove rows that died after it began


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of ``Diagnose``.

    ``table_sizes`` has the bytes that each table takes with its indexes, or each part of a store without sizes of
    tables. ``trimmed_rows`` is None if ``Trim`` has removed ledger rows and does not count them.
    """

    expired_leases: int = 0
    table_sizes: Mapping[str, int] = {}
    trimmed_rows: int | None = None
    ledger_delay: LedgerDelay | None = None
    table_health: TableHealth | None = None
