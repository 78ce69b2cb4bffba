"""The contract of every driver: what each verb guarantees, what it raises, and what is atomic.

docs/reference/guarantees.md has the laws L1 to L15. ``holdfast.testing.drivers.conformance`` checks a driver against
them.

- Instants and durations are integer microseconds.
- Every verb takes a batch. One call is one transaction and one round trip. Only ``settle`` may be several.
- ``now`` replaces the clock of the store, and is allowed only for a store opened with ``caller_clock=True``; otherwise
  the verb raises ``CallerClockRefused`` (L1).
- Every verb raises ``InvalidInput`` for arguments outside of their bounds, before it changes anything; ``StoreClosed``
  after ``close``; and another ``StoreError`` if the store cannot do its work.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, Self, TypeVar, runtime_checkable

from holdfast.drivers.answers import Inspection, Page, QueueCounts, Trimmed
from holdfast.drivers.capabilities import Capabilities
from holdfast.drivers.requests import FIND_BYTES, FIND_LIMIT, REAP_LIMIT
from holdfast.errors import LeaseError
from holdfast.model import bounds
from holdfast.model.domain import DomainInfo, DomainStatus, ResumeAction
from holdfast.model.filters import JobFilter
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import Gaps, OnExhausted, QueueSettings
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Settlement

__all__ = [
    "FIND_BYTES",
    "FIND_LIMIT",
    "REAP_LIMIT",
    "Admin",
    "Change",
    "DomainInfo",
    "DomainStatus",
    "Driver",
    "Entry",
    "Gaps",
    "Inspection",
    "JobFilter",
    "OnExhausted",
    "Page",
    "QueueCounts",
    "QueueSettings",
    "Registry",
    "ResumeAction",
    "Store",
    "Trimmed",
]


T = TypeVar("T")


class Driver(Protocol):
    """The verbs of producers and workers. A driver is safe to share between threads."""

    @property
    def capabilities(self) -> Capabilities:
        """What this driver supports, and what it does not, with reasons."""
        ...

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """Store new jobs and return one answer per record, in order.

        Atomic: if one record is invalid, ``InvalidInput`` is raised and no job is stored. The jobs are durable, in the
        durability class of the driver, when the call returns.

        A record with an id that exists, or with an idempotency key that is taken, stores nothing and changes nothing.
        Its answer has the id of the existing job, ``existed``, and ``conflict`` if the payloads differ (L6, L12). A key
        is taken per queue, as long as ``unique_for`` of its job says: see ``holdfast.model.unique``. By default, that
        is while its job has not ended and at least for the ``dedupe_window`` of the queue.

        So does a record with a domain and an ``offset`` that the domain has, or has had, in this queue (L11). If the
        job with that offset is open, the answer has its id. If the offset has ended, the answer has ``past`` too, with
        the id of the ended job if it is still kept, else with the id of the record, and ``conflict`` only if the job is
        kept. An id decides before a key, and a key before an offset. A record that is refused by its offset does not
        take its key. An offset that was never seen is accepted, however late it is.

        With ``replace_dead_before``, an instant, a record replaces the dead job that has its key, if that job ended
        before the instant: the job is removed with a ``purged`` ledger row, as by ``purge``, and the record is stored
        under the key, whatever its payload. All of it is one transaction, so of two callers one replaces the job, and
        the other finds the new one. As with ``purge``, a job stays while a registered reader has not read all its
        ledger rows. A record whose id exists replaces nothing. Neither records with an offset nor ``writes`` are
        allowed, and a ``joined`` driver raises ``Unsupported``.

        ``writes`` are registry changes, at most ``MAX_BATCH_ITEMS`` and each of another entry, that are made in the
        same transaction: with at least one job, whether the jobs are new or existed. All expected versions are compared
        before anything is stored. If one differs, ``WriteRefused`` names it, and neither a job nor an entry is stored.
        A call that ends with ``StoreUnavailable`` may have been carried out: read the entries before it is repeated.

        Raises ``StoreFull`` while there is still enough space for settlements.
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
        max_bytes: int | None = None,
        isolation: Isolation = Isolation.SHARE,
        prefetch: bool = False,
        now: int | None = None,
    ) -> list[Reservation]:
        """Lease up to ``limit`` due jobs of these queues, and of these types if given, for ``lease_for``.

        In one transaction (L3):

        1. end up to ``REAP_LIMIT`` expired leases of these queues, oldest first;
        2. pick due jobs over all these queues, ordered by (priority desc, available_at, seq), within the limits of
           their ``QueueSettings`` (L10);
        3. lease them and count their attempts (L7).

        Never returns a job that has a valid lease, nor a job of a domain in which another job is in flight or comes
        first, nor a job of a domain that is halted or waits for a missing offset (L11). The jobs of a domain are
        ordered by their offsets, and jobs without an offset come after those, in the order of their arrival. A gap of
        a domain begins when this call finds it, or when the end of a job leaves it, and is passed by the first call
        that finds it after ``gap_pass_after``.

        A job whose ``limit_key`` has no allowance, by the key limits of its queue or because its key is held, is passed
        over: it keeps its place, and delays neither jobs of other keys nor jobs without a key. A store sets such jobs
        aside, so that they are not read again by every call. One call sets a bounded number of jobs aside and may then
        return fewer jobs than are due; the next calls go on, and ``wait`` returns at once.

        With ``max_bytes``, stops before the job whose payload would make all payloads larger than that; the first job
        is returned whatever its size. ``isolation`` says what happens with jobs that must run alone. With ``prefetch``
        the caller begins the jobs later, when it has a free place: an expired lease counts nothing, unless a note of
        ``extend`` said that the job had started. An isolated job that is returned alone is never prefetched (L7).
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
        """Move the end of every valid lease to now + ``lease_for``, and store ``notes``, which are keyed by job id.

        Returns one answer per lease, in order: the extended lease, or why it was refused; a refused lease changes
        nothing (L5). The returned lease has the same token (L4), and ``cancel_requested`` if the job should stop.
        """
        ...

    def settle(self, settlements: Sequence[Settlement], *, now: int | None = None) -> list[LeaseError | None]:
        """End leases. Returns one answer per settlement, in order: None, or why it was refused.

        A refused settlement changes nothing and does not affect the others (L5). The whole effect of a settlement is
        atomic: the job, its result, the turn of its domain, its ledger row, the hold of its key, and the ``writes`` of
        an ack.

        Repeating exactly the settlement that ended the last lease of a job returns None and changes nothing, for at
        least a day and until the job is reserved again (L6).
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
        """End up to ``limit`` expired leases, oldest first, in these queues or in all; return how many.

        With ``worker``, end the leases of that worker, expired or not: the caller knows that the worker is dead.
        """
        ...

    def report_outage(self, leases: Sequence[Lease], *, now: int | None = None) -> list[bool]:
        """Report leases that expired while the caller could not reach the store. It has stopped their attempts (L7).

        An expired lease ends as by ``reap``, and the attempt counts, but no crash is counted. If it was reaped already,
        the crash is taken back, unless the job has ended. Returns True for these leases. Any other lease, and a lease
        that was reported before, changes nothing and gives False.
        """
        ...

    def wait(self, queues: Sequence[str], *, timeout: float) -> None:
        """Block until a job of these queues may be due, for at most ``timeout`` seconds. A hint: reserve decides."""
        ...

    def space(self, name: str) -> Store:
        """Return another space of the same store, on the same connections. Spaces share no job, key or counter."""
        ...

    def joined(self, connection: object) -> Driver:
        """Return a driver that enqueues in the caller's own transaction; its other verbs raise ``Unsupported``."""
        ...

    def close(self) -> None:
        """Close the connections, also those of the spaces. Later calls raise ``StoreClosed``."""
        ...


class Admin(Protocol):
    """The verbs of people and tools. Every list has a limit and a cursor."""

    def get(self, job_id: str) -> JobRecord | None:
        """Return a job in any state; None if the space has no job with this id."""
        ...

    def inspect(self, job_ids: Sequence[str], *, payloads: bool = True) -> dict[str, Inspection]:
        """Return these jobs, in any state, with their leases and notes, by id. Ids without a job are left out.

        Without ``payloads``, neither payloads nor results are read, nor what notes contain: such a job has an empty
        payload and no result, and its note has only ``started_at``.
        """
        ...

    def find(
        self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None, newest: bool = False
    ) -> Page[JobRecord]:
        """Return a page of the jobs that match, ordered by id. ``after=page.cursor`` asks for the next page.

        With ``newest`` the order is reversed: the largest id comes first. The ids that a client makes grow with time.

        One call reads a bounded number of rows (``FIND_LIMIT``), and a page ends when its payloads and results have
        ``FIND_BYTES``. So a page may have fewer jobs than ``limit``, even none, and still have a cursor. Only a cursor
        of None says that no more jobs match.
        """
        ...

    def any_open(self, queues: Sequence[str], types: Collection[str]) -> bool:
        """Whether a job of these types is ready, scheduled or in flight in these queues. Does not count jobs."""
        ...

    def counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Return one row per queue and type that has jobs, ordered by both.

        With ``states`` only jobs in these states are counted and read; the other numbers are 0. ``ready`` jobs include
        the scheduled ones. Done jobs are most of the jobs of a store: leave them out of a call that is repeated.
        """
        ...

    def requeue(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Make dead or cancelled jobs ready again, attempts and crashes set to 0, as the last of their lanes (L9).

        Returns one answer per id: True if this call requeued the job, which then has a ``requeued`` ledger row. If
        another job has taken the idempotency key meanwhile, the key stays with that job. A dead letter ``unreadable``
        stays one until its row can be read again.

        A job with an offset runs at the place of its offset in its domain. A job that halted its domain is requeued as
        by ``resume`` with ``RETRY``.
        """
        ...

    def cancel(self, job_ids: Sequence[str], *, now: int | None = None) -> list[State | None]:
        """Cancel ready jobs at once, and request cancellation of running jobs.

        Returns the state of each job after the call; None if there is no such job. A running job stays in flight with
        ``cancel_requested``; any end of its lease except an ack makes it cancelled.
        """
        ...

    def purge(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Remove ended jobs, each with a ``purged`` ledger row. Returns True where this call removed the job.

        An offset stays ended when its job is removed. If the job halted its domain, the domain goes on.

        A job stays, and its answer is False, while a registered reader has not read all ledger rows of the job (see
        ``model.ledger_reader``). If a reader is more than ``FIND_LIMIT`` rows behind, further jobs that ended late may
        stay, too.
        """
        ...

    def configure(
        self, queue: str, settings: QueueSettings, *, type: str | None = None, only: Collection[str] | None = None
    ) -> None:
        """Replace the settings of a queue, or of one type in it. The next reserve applies them.

        With ``only``, these fields are replaced and the others stay as they are, in one step: two callers that change
        different fields undo nothing of each other. ``rate`` and ``burst`` are replaced together, and so are
        ``key_rate`` and ``key_burst``; ``limits_from`` is replaced with any limit. Replacing limits by key ends the
        holds of all keys of the queue, see ``Retry.hold_key``. A halted domain stays halted, whatever ``on_exhausted``
        becomes.

        A call with ``only`` whose ``limits_from`` is a handler or the settings proposes its limits: it changes nothing
        where limits of a higher origin are in force. Limits without an origin count as an operator's.
        """
        ...

    def settings(self, queue: str, *, type: str | None = None) -> QueueSettings:
        """Return the settings of a queue, or of one type in it; the defaults if none were configured."""
        ...

    def domains(
        self,
        queue: str | None = None,
        *,
        status: DomainStatus | None = None,
        name: str | None = None,
        limit: int = 100,
        after: str | None = None,
        now: int | None = None,
    ) -> Page[DomainInfo]:
        """Return a page of the domains that have an open job or are halted, ordered by queue and name.

        ``status`` and ``name`` leave the others out; the name is exact. If both ``queue`` and ``name`` are given, a
        domain is listed also if it has only offsets that have ended, or a start that was moved.

        One call reads a bounded number of rows (``FIND_LIMIT``), as ``find`` does: only a cursor of None says that no
        more domains match.
        """
        ...

    def resume(
        self,
        queue: str,
        domain: str,
        action: ResumeAction = ResumeAction.RESUME,
        *,
        position: int | None = None,
        now: int | None = None,
    ) -> bool:
        """Let a halted domain go on, as ``action`` says; return whether this call changed the domain.

        With ``position``, the domain waits for no offset below it any more: this is the first offset of a domain that
        does not begin at 0, or the end of a gap that nothing will fill. A smaller offset that arrives later runs next.
        """
        ...

    def forget_domain(self, queue: str, domain: str) -> bool:
        """Remove what a domain without open jobs remembers: its ended offsets, its start and its halt.

        Its offsets are new again. Returns False if the domain has an open job, or nothing to remove. For queues with
        ever new domains; nothing else removes ended offsets.
        """
        ...

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return a page of the ledger, in an order that is fixed and has no gaps (L13).

        ``after=None`` begins at the oldest row. The page always has a cursor, also if it is empty, and one cursor per
        row. Raises ``LedgerTrimmed`` if rows after the cursor were removed.
        """
        ...

    def ledger_end(self) -> str:
        """Return the cursor of the end: ``ledger`` after it has only rows that are written from now on."""
        ...

    def ledger_tail(self, before: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return the last ``limit`` rows up to the cursor ``before``, in the order of the ledger; None is the end.

        ``ledger`` after the same cursor returns the rows that follow. ``before=page.cursor`` asks for the page before
        this one; a cursor of None says that there are no earlier rows. Rows that were trimmed are left out. Reads no
        other row.
        """
        ...

    def trim(
        self,
        *,
        ended_for: int | None = None,
        ledger_for: int | None = None,
        limit: int = bounds.MAX_BATCH_ITEMS,
        now: int | None = None,
    ) -> Trimmed:
        """Remove old rows: done and cancelled jobs, ledger rows, idempotency keys and registry entries.

        Jobs stay for ``ended_for`` after their end, at least a day (L6), and ledger rows for ``ledger_for``. Without a
        value, the retention that the space stores decides (see ``model.retention``), and without one the defaults, 7
        and 30 days. Dead letters stay until ``purge``. Ledger rows that a registered reader has not read stay, and so
        do their jobs, until it has read them, or until its registration expires or is removed (see
        ``model.ledger_reader``). Removes at most ``limit`` rows of each kind.

        A key is removed when its window has ended and its job is done or removed. If the job ends after the window, the
        key may stay for another hour, or for as long as the window had been over by then: it blocks no other job, and
        trim does not read the keys of all open and dead jobs again and again.
        """
        ...


class Registry(Protocol):
    """Small entries that are not jobs, at most 64 KiB each, written by compare-and-set. The only other storage."""

    def read(self, kind: str, keys: Sequence[str], *, now: int | None = None) -> list[Entry | None]:
        """Return the entries under these keys, in order; None where there is none or it has expired."""
        ...

    def write(self, changes: Sequence[Change], *, now: int | None = None) -> list[Entry | None]:
        """Make the changes in order, each only if the entry has the expected version.

        Returns the new entry of each change, None where the version differed. One transaction: a change sees the
        changes before it. A version is never used twice, not even after a removal.
        """
        ...

    def scan(
        self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100, now: int | None = None
    ) -> list[Entry]:
        """Return the entries of a kind whose keys begin with ``prefix``, ordered by key, after the key ``after``."""
        ...


@runtime_checkable
class Store(Driver, Admin, Registry, Protocol):
    """What ``holdfast.connect`` returns: all three protocols, and a context manager that closes the store."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
