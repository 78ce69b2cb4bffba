"""The law in code: what every driver promises, verb by verb.

The laws L1 to L15 are in docs/guarantees.md; ``holdfast.testing.drivers.conformance`` checks a driver against them.
Instants and lengths are integer microseconds. Every verb is batch-first: one call, one transaction, one round trip.
``now`` is honoured only by a store opened with ``caller_clock=True`` and refused with ``CallerClockRefused`` otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

from holdfast.clock import DAY
from holdfast.errors import LeaseError
from holdfast.model import bounds
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import OnExhausted, QueueSettings
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Settlement

__all__ = [
    "REAP_LIMIT",
    "Admin",
    "Capabilities",
    "Change",
    "Driver",
    "Durability",
    "Entry",
    "Feature",
    "Inspection",
    "JobFilter",
    "LedgerScan",
    "OnExhausted",
    "Page",
    "QueueCounts",
    "QueueSettings",
    "Registry",
    "Store",
    "Trimmed",
]

REAP_LIMIT = 1000  # expired leases that one call ends at the most, so that no caller pays for a whole outage

T = TypeVar("T")


class Durability(IntEnum):
    """What survives once a call has returned (law L15)."""

    MEMORY = 0  # nothing: it is gone with the process
    PROCESS = 1  # the death of the process, not a power cut
    FSYNC = 2  # a power cut


class Feature(StrEnum):
    """A promise that a driver may have to decline (law L14)."""

    TYPES = "reserving by type"
    PRIORITIES = "priorities"
    SCHEDULING = "run_at and delays"
    DOMAINS = "domains in order of arrival"
    OFFSETS = "domains in order of explicit offsets"
    HALT = "halting a domain on exhaustion"
    LIMITS = "pause, concurrency and rate limits"
    IDEMPOTENCY = "idempotency keys"
    LEDGER = "the ledger"
    REGISTRY = "the registry"
    SPACES = "spaces"
    NOTES = "progress and checkpoints"
    CALLER_CLOCK = "a caller's clock"
    JOINED = "enqueue in the caller's transaction"
    PROCESSES = "use by several processes at once"
    MACHINES = "use by several machines at once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a driver keeps. What it does not is in ``gaps`` with the reason, and raises ``Unsupported`` if asked for."""

    driver: str
    durability: Durability
    gaps: Mapping[Feature, str] = field(default_factory=dict)

    def has(self, feature: Feature) -> bool:
        """Whether the promise is kept."""
        return feature not in self.gaps


class Driver(Protocol):
    """What producers and workers need. Safe to share between threads."""

    @property
    def capabilities(self) -> Capabilities:
        """What this driver keeps, and what it does not, with reasons."""
        ...

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int | None = None) -> list[Enqueued]:
        """Store new jobs; answers in the order given, durable in the driver's class when it returns.

        All or nothing: a record that is not acceptable raises ``InvalidInput`` and none is stored. An id that is
        already known, or an idempotency key that is (per queue, while its job has not ended and at least for the
        queue's ``dedupe_window``), stores nothing, changes nothing, and answers with the job that exists: ``existed``,
        and ``conflict`` if the payloads differ (L6, L12). Raises ``StoreFull`` before acks would fail.
        """
        ...

    def reserve(
        self,
        queues: Sequence[str],
        *,
        limit: int,
        lease_for: int,
        worker: str = "",
        types: Collection[str] | None = None,
        now: int | None = None,
    ) -> list[Reservation]:
        """Own up to ``limit`` due jobs of these queues (and types), each under a fresh lease of ``lease_for``.

        First ends what has expired in these queues, up to ``REAP_LIMIT``, oldest first; then picks in the order
        ``(priority desc, available_at, seq)`` over all of them, within their ``QueueSettings``; then leases and counts
        the attempt: one transaction (L3, L7, L10). Never returns a job whose lease is valid, nor one whose domain has
        another in flight or in front (L11).
        """
        ...

    def extend(
        self,
        leases: Sequence[Lease],
        *,
        lease_for: int,
        notes: Mapping[str, Note] | None = None,
        now: int | None = None,
    ) -> list[Lease | LeaseError]:
        """Move ``expires_at`` to now + ``lease_for``, and keep ``notes`` (by job id), for every lease that is valid.

        Answers per item, in order; a refused one changes nothing (L5). Use the lease that comes back: it says whether
        cancellation was requested. The token stays the same (L4).
        """
        ...

    def settle(self, settlements: Sequence[Settlement], *, now: int | None = None) -> list[LeaseError | None]:
        """End leases. Answers per item, in order: None, or why it was refused; one bad item spoils no other (L5).

        An item's whole effect (the job, its result, the turn of its domain, its ledger row, an ack's ``writes``) is one
        transaction. Repeating exactly the settlement that ended a job's last lease answers None again and changes
        nothing, for at least a day and until the job is reserved again (L6).
        """
        ...

    def reap(
        self,
        queues: Sequence[str] | None = None,
        *,
        worker: str | None = None,
        limit: int = REAP_LIMIT,
        now: int | None = None,
    ) -> int:
        """End expired leases, oldest first, in these queues or in all; gives how many.

        With ``worker``, end that worker's leases whether expired or not: the caller knows that it is dead.
        """
        ...

    def wait(self, queues: Sequence[str], *, timeout: float) -> None:
        """Return when work may be ready, at the latest after ``timeout`` seconds. A hint, never the truth."""
        ...

    def space(self, name: str) -> Store:
        """The same store and connections, seen by one tenant: no job, key or number is shared between spaces."""
        ...

    def joined(self, connection: object) -> Driver:
        """A driver whose ``enqueue`` is part of the caller's own transaction; every other verb is ``Unsupported``."""
        ...

    def close(self) -> None:
        """Give back connections, also those of its spaces. Later calls raise ``StoreClosed``."""
        ...


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list. ``cursor`` asks for what follows; a job list gives None at its end, the ledger never ends."""

    items: list[T]
    cursor: str | None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """How many jobs of one type stand where in one queue; ``scheduled`` are the ready ones that are not yet due."""

    queue: str
    type: str
    ready: int = 0
    scheduled: int = 0
    inflight: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """A job with what is known of it now, for people; the token is never shown."""

    job: JobRecord
    available_at: int
    worker: str = ""
    fence: int | None = None
    reserved_at: int | None = None
    expires_at: int | None = None
    ended_at: int | None = None
    cancel_requested: bool = False
    note: Note | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """What retention removed; ``more`` says that it stopped at its limit."""

    jobs: int = 0
    ledger: int = 0
    dedupe: int = 0
    registry: int = 0
    more: bool = False


class Admin(Protocol):
    """For people and tools. Every list has a limit and a cursor."""

    def get(self, job_id: str) -> JobRecord | None:
        """The job as it stands, in any state; None if this space does not know it."""
        ...

    def inspect(self, job_id: str) -> Inspection | None:
        """The job with its lease and its notes."""
        ...

    def find(self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None) -> Page[JobRecord]:
        """Jobs that fit, in order of their ids; go on with ``after=page.cursor`` until that is None."""
        ...

    def any_open(self, queues: Sequence[str], types: Collection[str]) -> bool:
        """Whether a job of these types waits, is scheduled or runs in these queues: cheap, whatever else there is."""
        ...

    def counts(self, queues: Sequence[str] | None = None, *, now: int | None = None) -> list[QueueCounts]:
        """One row per queue and type that has jobs, ordered by both."""
        ...

    def requeue(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Make dead or cancelled jobs ready again: attempts and crashes from zero, at the end of the line (L9).

        True where this call did it. Writes a ``requeued`` ledger row for each. An idempotency
        key that another job has taken meanwhile stays with that one.
        """
        ...

    def cancel(self, job_ids: Sequence[str], *, now: int | None = None) -> list[State | None]:
        """End ready jobs at once, ask running ones to stop; gives each job's state after it, None if unknown.

        A running job stays in flight with ``cancel_requested``; any ending of it but an ack makes it cancelled.
        """
        ...

    def purge(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Remove ended jobs for good, each with a ``purged`` ledger row. True where this call did it."""
        ...

    def configure(self, queue: str, settings: QueueSettings, *, type: str | None = None) -> None:
        """Replace the settings of a queue, or of one type in it."""
        ...

    def settings(self, queue: str, *, type: str | None = None) -> QueueSettings:
        """The settings in force; the defaults if none were configured."""
        ...

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Endings in a fixed order without gaps (L13). ``after=None`` begins at the oldest row kept.

        The page's cursor always leads on, also from an empty page. Raises ``LedgerTrimmed`` rather than skip rows.
        """
        ...

    def ledger_end(self) -> str:
        """The cursor from which ``ledger`` gives what has not ended yet: for those who want only what follows."""
        ...

    def trim(
        self,
        *,
        ended_for: int = 7 * DAY,
        ledger_for: int = 30 * DAY,
        limit: int = bounds.MAX_BATCH_ITEMS,
        now: int | None = None,
    ) -> Trimmed:
        """Retention: forget done and cancelled jobs, ledger rows, keys and registry rows that are old enough.

        Dead letters are never trimmed: only ``purge`` removes them. ``ended_for`` is at least a day (L6). What a
        registered reader has not read is kept until it has, or until its registration expires (``model/reader.py``).
        """
        ...


@runtime_checkable
class LedgerScan(Protocol):
    """What a driver may offer beside ``Admin.ledger``, for those who read by the million: the same rows and cursors."""

    def ledger_tuples(self, after: str | None, limit: int) -> tuple[Sequence[Sequence[Any]], str]:
        """A page of plain tuples: the fields of ``LedgerRow`` in their order, then what is the driver's own, if any."""
        ...

    def ledger_marks(self, after: str | None, *, every: int, most: int) -> list[tuple[str, int]]:
        """Cursors ``every`` so many rows, each with the number of rows since the one before, without reading them.

        Ends ``most`` rows on, or at the last row; the last stretch may be shorter.
        """
        ...


@runtime_checkable
class JobScan(Protocol):
    """What a driver may offer beside ``Admin.find``, for those who read by the million: the same jobs and cursors."""

    def job_columns(
        self, where: JobFilter, names: Sequence[str], *, limit: int, after: str | None = None
    ) -> tuple[Sequence[Sequence[object]], str | None]:
        """A page, only these fields of ``JobRecord``, column by column, without a value for each job."""
        ...


@runtime_checkable
class LeasedEnqueue(Protocol):
    """What a driver may offer beside ``Driver.enqueue``, to those who work on what they bring."""

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """``enqueue``, and in the same transaction a lease for each of the jobs, or for none of them.

        For none if one of them existed, has a domain or a ``run_at``, or is for a queue with a pause or a limit; or if
        the driver has no quick way for this batch. What has no lease waits in line, as after ``enqueue``.
        """
        ...


class Registry(Protocol):
    """Small rows (at most 64 KiB) that are not jobs; the only other storage. By compare-and-set, never by locks."""

    def read(self, kind: str, keys: Sequence[str], *, now: int | None = None) -> list[Entry | None]:
        """The rows under these keys, in order; None where there is none or it has expired."""
        ...

    def write(self, changes: Sequence[Change], *, now: int | None = None) -> list[Entry | None]:
        """Make each change whose expected version is the current one, in order; None where it was not.

        One transaction; a change sees the ones before it. Versions are never used twice, not even after a removal.
        """
        ...

    def scan(
        self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100, now: int | None = None
    ) -> list[Entry]:
        """The rows of a kind in order of their keys, those with ``prefix``, beginning behind ``after``."""
        ...


@runtime_checkable
class Store(Driver, Admin, Registry, Protocol):
    """What ``holdfast.connect`` gives: all three, and a context manager that closes it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
