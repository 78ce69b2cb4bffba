"""The optional parts of the contract: each is a protocol that a driver may implement.

A caller asks with ``isinstance(store, ...)``, and does without if the answer is no. The rules of the contract hold here
too: see ``drivers.contract``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from holdfast.drivers.answers import LedgerDelay, Page, QueueCounts, SpaceRemoval
from holdfast.model import bounds
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Reservation
from holdfast.model.ledger import LedgerRow

__all__ = [
    "AuditScan",
    "CancelWait",
    "CountEstimates",
    "Diagnosis",
    "ExpiredLeases",
    "JobScan",
    "LeasedEnqueue",
    "LedgerDelay",
    "LedgerDiagnosis",
    "LedgerScan",
    "NamedSpace",
    "SpaceAdmin",
    "SpaceRemoval",
    "WebhookScan",
]


@runtime_checkable
class LedgerScan(Protocol):
    """Optional: read the ledger by the million rows. The rows and cursors are those of ``Admin.ledger``."""

    def ledger_tuples(self, after: str | None, limit: int) -> tuple[Sequence[Sequence[Any]], str]:
        """Return a page of tuples and its cursor. A tuple has the fields of ``LedgerRow`` in order, then any others."""
        ...

    def ledger_marks(self, after: str | None, *, every: int, most: int) -> list[tuple[str, int]]:
        """Return cursors that split the next ``most`` rows into ranges of ``every`` rows.

        Each cursor comes with the number of rows in its range; the last range may be shorter. The rows are not read.
        """
        ...


@runtime_checkable
class WebhookScan(Protocol):
    """Optional: tell which jobs have a webhook, for readers of the ledger. Without it, they read every job."""

    def webhooks(self, job_ids: Sequence[str]) -> dict[str, str]:
        """Return the webhooks of these jobs, in any state, by job id. Jobs without a webhook are left out."""
        ...


@runtime_checkable
class JobScan(Protocol):
    """Optional: read jobs by the million. The jobs and cursors are those of ``Admin.find``."""

    def job_columns(
        self, where: JobFilter, names: Sequence[str], *, limit: int, after: str | None = None
    ) -> tuple[Sequence[Sequence[object]], str | None]:
        """Return a page as columns, one per name of a ``JobRecord`` field, and its cursor."""
        ...


@runtime_checkable
class AuditScan(Protocol):
    """Optional: what an audit needs beside the ledger and the jobs. Without it, an audit checks less."""

    @property
    def has_serial_arrivals(self) -> bool:
        """Whether of two calls of enqueue one always commits before the other reads the clock."""
        ...

    def arrivals(self, job_ids: Sequence[str]) -> dict[str, int]:
        """Return the places of these jobs in the order of arrival (L11); a requeued job arrives again.

        Ids without a job are left out. Compare the numbers only between jobs of one call of enqueue.
        """
        ...

    @property
    def has_numbered_ledger(self) -> bool:
        """Whether the cursor of a ledger row is its number, which counts all rows of the space from 1."""
        ...

    def trimmed_rows(self) -> int | None:
        """Return how many ledger rows ``trim`` has removed; None if it has removed some and does not count them."""
        ...


@runtime_checkable
class LeasedEnqueue(Protocol):
    """Optional: enqueue a batch and lease it in one transaction."""

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """Enqueue the jobs and lease all of them, or none of them, in one transaction.

        Returns the answers of ``enqueue`` and the reservations, which count as prefetched. No job is leased if one of
        them existed, has a domain, a ``run_at`` or a ``limit_key``, or is in a queue with a pause or a limit, or if the
        driver cannot lease this batch quickly. Jobs that are not leased are ready, as after ``enqueue``.
        """
        ...


@runtime_checkable
class NamedSpace(Protocol):
    """Optional: tell the name of the space. A signature covers it; without it, the settings tell the name."""

    @property
    def space_name(self) -> str:
        """The name of the space that this driver was opened in."""
        ...


@runtime_checkable
class CancelWait(Protocol):
    """Optional: learn of a cancel request at once. Without it, a worker learns of one from its next ``extend``."""

    def wait_for_cancel(self, job_ids: Collection[str], *, timeout: float) -> bool:
        """Block until a cancel is requested for one of these jobs in flight, for at most ``timeout`` seconds.

        Returns whether there is such a request, also one from before the call. A hint: ``extend`` decides.
        """
        ...


@runtime_checkable
class ExpiredLeases(Protocol):
    """Optional: tell which leases the calls of this object have ended themselves. Without it, only the ledger tells."""

    def take_expired(self) -> list[LedgerRow]:
        """Return the ledger rows of the leases that ``reserve``, ``reap`` and ``report_outage`` ended as expired.

        Also those of jobs that could not be read, which a reserve made dead letters (ending ``failed``).

        Each row is returned once, in order, if the call was made on this object and has returned. Only the last
        ``MAX_REMEMBERED_CALLS`` calls that ended leases are remembered, and no call whose answer was lost: the ledger
        has all rows. Costs nothing if there is no such row.
        """
        ...


@runtime_checkable
class Diagnosis(Protocol):
    """Optional: facts for ``holdfast doctor``. Both calls read a bounded number of rows, or statistics."""

    def count_expired_leases(self, *, expired_for: int = 0, now: int | None = None) -> int:
        """Return how many leases expired at least so many microseconds ago and were not reaped; at most REAP_LIMIT."""
        ...

    def table_sizes(self) -> Mapping[str, int]:
        """Return the bytes that each table takes with its indexes, or each part of a store without sizes of tables."""
        ...


@runtime_checkable
class CountEstimates(Protocol):
    """Optional: count the jobs of a store of any size in bounded time."""

    def estimate_counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Return what ``counts`` returns, and read a bounded number of rows, whatever the space contains.

        The numbers of a space with up to ``drivers.estimates.COUNT_LIMIT`` jobs are exact. In a larger space, a queue
        and type with few jobs is still counted, so that a small queue beside a long one is never reported as empty; the
        other numbers are estimated from a sample, and their rows say so. Jobs that wait for their turn in a domain are
        always estimated then. ``oldest_ready_age`` is exact for jobs that can be reserved.
        """
        ...


@runtime_checkable
class SpaceAdmin(Protocol):
    """Optional: the verbs for all spaces of a store, called from any of them."""

    def spaces(
        self, *, after: str = "", limit: int = 100, has_expired_leases: bool = False, now: int | None = None
    ) -> Page[str]:
        """Return a page of the names of the spaces that have rows, in order. ``after=page.cursor`` asks for the next.

        With ``has_expired_leases``, only spaces in which ``reap`` may find something to do. One call looks at a bounded
        number of spaces. So a page may have fewer names than ``limit``, even none, and still have a cursor; only a
        cursor of None says that there are no more.
        """
        ...

    def remove_space(
        self, name: str, *, force: bool = False, limit: int = bounds.MAX_BATCH_ITEMS, now: int | None = None
    ) -> SpaceRemoval:
        """Remove up to ``limit`` rows of a space: its jobs, ledger, keys, settings and registry. Repeat while ``more``.

        When the last call has returned, no row of the space is left, unless somebody has written to it meanwhile. A
        space of the same name can be used again: its fences and registry versions continue to grow (L4), and no cursor
        of the old ledger leads into the new one.

        Raises ``SpaceInUse`` while a job of the space is in flight. With ``force`` these jobs are removed, and the
        calls of their workers are refused with ``JobNotInflight``. Waits for no reader of the ledger.
        """
        ...


@runtime_checkable
class LedgerDiagnosis(Protocol):
    """Optional, for a store whose ledger waits for older transactions: what delays its readers."""

    def ledger_delay(self) -> LedgerDelay | None:
        """Return the transaction that delays the readers of the ledger; None if there is none."""
        ...
