"""What callers see: a ``Store`` in front of an engine. It refuses what is not allowed.

``do`` takes every request. The other verbs say the same in a line each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Self, TypeVar

from holdfast.drivers import requests as r
from holdfast.drivers.answers import (
    Inspection,
    LedgerDelay,
    Page,
    QueueCounts,
    Reaped,
    Reserved,
    SpaceRemoval,
    Trimmed,
)
from holdfast.drivers.capabilities import Capabilities, Feature
from holdfast.drivers.engine import Door
from holdfast.errors import CallerClockRefused, LeaseError, Unsupported
from holdfast.model import bounds
from holdfast.model.domain import DomainInfo, DomainStatus, ResumeAction
from holdfast.model.filters import JobFilter
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Settlement

A = TypeVar("A")

MAX_REMEMBERED_CALLS = 10  # that ended expired leases: nobody may ever ask, and one call ends up to REAP_LIMIT leases


class Store:
    """One space of one store, safe to share between threads.

    ``joined`` is a view for a transaction of the caller: it enqueues, and refuses everything else.
    """

    def __init__(self, engine: Door, *, connection: object = None) -> None:
        self.engine = engine
        self._connection = connection
        self._ended: deque[list[LedgerRow]] = deque(maxlen=MAX_REMEMBERED_CALLS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def capabilities(self) -> Capabilities:
        """What the store supports, and what it does not, with reasons."""
        return self.engine.can

    @property
    def space_name(self) -> str:
        """The name of the space."""
        return self.engine.space_name

    def do(self, request: r.Request[A]) -> A:
        """Carry out one request. Raises what ``drivers.requests`` says."""
        request.check(self.engine.can)
        if not isinstance(request, r.Enqueue):
            self._refuse_if_joined()
        if request.now is not None:
            if not self.engine.caller_clock:
                raise CallerClockRefused
            bounds.check_integer("now", request.now, most=bounds.MAX_INSTANT)
        answer = self.engine.execute(request)
        if isinstance(answer, Reserved | Reaped) and answer.ended:
            self._ended.append(answer.ended)
        return answer

    def space(self, name: str) -> Store:
        """Return another space of the same store."""
        self._refuse_if_joined()
        bounds.check_name("space", name)
        if name != self.space_name:
            self.capabilities.require(Feature.SPACES)
        return type(self)(self.engine.open_space(name))

    def close(self) -> None:
        """Close the store, with all its spaces; does nothing for a view, whose connection belongs to the caller."""
        if self._connection is None:
            self.engine.close()

    def _refuse_if_joined(self) -> None:
        if self._connection is not None:
            wanted = "any verb but enqueue in the caller's transaction"
            raise Unsupported(self.capabilities.driver, wanted, "use the store itself for the rest")

    # The verbs of producers and workers.

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """Store new jobs: ``requests.Enqueue``."""
        request = r.Enqueue(
            jobs=jobs, writes=writes, replace_dead_before=replace_dead_before, connection=self._connection, now=now
        )
        return self.do(request).answers

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """Store new jobs and lease them: ``requests.Enqueue`` with a lease."""
        stored = self.do(r.Enqueue(jobs=jobs, lease=r.LeaseTerms(lease_for=lease_for, worker=worker), now=now))
        return stored.answers, stored.reservations

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
        """Lease due jobs: ``requests.Reserve``."""
        request = r.Reserve(
            queues=queues,
            limit=limit,
            lease_for=lease_for,
            worker=worker,
            types=types,
            max_bytes=max_bytes,
            isolation=isolation,
            prefetch=prefetch,
            now=now,
        )
        return self.do(request).reservations

    def extend(
        self,
        leases: Sequence[Lease],
        *,
        lease_for: int,
        notes: Mapping[str, Note] | None = None,
        now: int | None = None,
    ) -> list[Lease | LeaseError]:
        """Extend leases: ``requests.Extend``."""
        return self.do(r.Extend(leases=leases, lease_for=lease_for, notes=notes or {}, now=now))

    def settle(self, settlements: Sequence[Settlement], *, now: int | None = None) -> list[LeaseError | None]:
        """End leases: ``requests.Settle``."""
        return self.do(r.Settle(settlements=settlements, now=now))

    def reap(
        self,
        queues: Sequence[str] | None = None,
        *,
        worker: str | None = None,
        limit: int = r.REAP_LIMIT,
        now: int | None = None,
    ) -> int:
        """End expired leases: ``requests.Reap``."""
        return self.do(r.Reap(queues=queues, worker=worker, limit=limit, now=now)).count

    def report_outage(self, leases: Sequence[Lease], *, now: int | None = None) -> list[bool]:
        """Report leases that expired in an outage: ``requests.Reap`` with leases."""
        return self.do(r.Reap(leases=leases, now=now)).reported

    def take_expired(self) -> list[LedgerRow]:
        """Return the ledger rows of the leases that the calls of this object have ended, each once."""
        rows: list[LedgerRow] = []
        while self._ended:
            try:
                rows += self._ended.popleft()
            except IndexError:  # another thread has taken the last one
                break
        return rows

    def wait(self, queues: Sequence[str], *, timeout: float, since: tuple[int, ...] = ()) -> None:
        """Wait for a due job: ``requests.Wait``."""
        self.do(r.Wait(queues=queues, timeout=timeout, since=since))

    def wait_for_cancel(self, job_ids: Collection[str], *, timeout: float) -> bool:
        """Wait for a cancel request: ``requests.WaitForCancel``."""
        return self.do(r.WaitForCancel(job_ids=job_ids, timeout=timeout))

    def joined(self, connection: object) -> Store:
        """Return a view that enqueues in the transaction of the caller's connection."""
        self._refuse_if_joined()
        self.capabilities.require(Feature.JOINED)
        return type(self)(self.engine, connection=connection)

    # The verbs of people and tools.

    def get(self, job_id: str) -> JobRecord | None:
        """Return a job in any state; None if the space has no job with this id."""
        found = self.inspect([job_id]).get(job_id)
        return None if found is None else found.job

    def inspect(self, job_ids: Sequence[str], *, payloads: bool = True) -> dict[str, Inspection]:
        """Return jobs with their leases and notes: ``requests.Inspect``."""
        return self.do(r.Inspect(job_ids=job_ids, payloads=payloads))

    def webhooks(self, job_ids: Sequence[str]) -> dict[str, str]:
        """Return the webhooks of these jobs by id. Jobs without one are left out."""
        found = self.inspect(job_ids, payloads=False).values()
        return {each.job.id: each.job.webhook for each in found if each.job.webhook is not None}

    def arrivals(self, job_ids: Sequence[str]) -> dict[str, int]:
        """Return the places of these jobs in the order of arrival (L11); a requeued job arrives again."""
        return {job_id: each.arrival for job_id, each in self.inspect(job_ids, payloads=False).items()}

    def find(
        self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None, newest: bool = False
    ) -> Page[JobRecord]:
        """Return a page of jobs: ``requests.Find``."""
        return self.do(r.Find(where=where or JobFilter(), limit=limit, after=after, newest=newest))

    def job_columns(
        self, where: JobFilter, names: Sequence[str], *, limit: int, after: str | None = None
    ) -> tuple[Sequence[Sequence[object]], str | None]:
        """Return a page of jobs as columns: ``requests.ReadColumns``."""
        return self.do(r.ReadColumns(where=where, names=names, limit=limit, after=after))

    def any_open(self, queues: Sequence[str], types: Collection[str]) -> bool:
        """Whether a job is open: ``requests.AnyOpen``."""
        return self.do(r.AnyOpen(queues=queues, types=types))

    def counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Count jobs: ``requests.Counts``."""
        return self.do(r.Counts(queues=queues, states=states, now=now))

    def estimate_counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Count jobs in bounded time: ``requests.Counts`` with an estimate."""
        return self.do(r.Counts(queues=queues, states=states, estimate=True, now=now))

    def requeue(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Make ended jobs ready again: ``requests.Requeue``."""
        return self.do(r.Requeue(job_ids=job_ids, now=now))

    def cancel(self, job_ids: Sequence[str], *, now: int | None = None) -> list[State | None]:
        """Cancel jobs: ``requests.Cancel``."""
        return self.do(r.Cancel(job_ids=job_ids, now=now))

    def purge(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Remove ended jobs: ``requests.Purge``."""
        return self.do(r.Purge(job_ids=job_ids, now=now))

    def trim(
        self,
        *,
        ended_for: int | None = None,
        ledger_for: int | None = None,
        limit: int = bounds.MAX_BATCH_ITEMS,
        now: int | None = None,
    ) -> Trimmed:
        """Remove old rows: ``requests.Trim``."""
        return self.do(r.Trim(ended_for=ended_for, ledger_for=ledger_for, limit=limit, now=now))

    def count_expired_leases(self, *, expired_for: int = 0, now: int | None = None) -> int:
        """Count leases that nobody has reaped: ``requests.Diagnose``."""
        return self.do(r.Diagnose(expired_for=expired_for, now=now)).expired_leases

    def table_sizes(self) -> Mapping[str, int]:
        """Return the bytes of each table: ``requests.Diagnose``."""
        return self.do(r.Diagnose()).table_sizes

    @property
    def has_serial_arrivals(self) -> bool:
        """Whether of two calls of enqueue one always commits before the other reads the clock."""
        return self.engine.has_serial_arrivals

    @property
    def has_numbered_ledger(self) -> bool:
        """Whether the cursor of a ledger row is its number, which counts all rows of the space from 1."""
        return self.engine.has_numbered_ledger

    def trimmed_rows(self) -> int | None:
        """Return how many ledger rows ``trim`` has removed; None if it has removed some and does not count them."""
        return self.do(r.Diagnose()).trimmed_rows

    # Queues and domains.

    def configure(
        self, queue: str, settings: QueueSettings, *, type: str | None = None, only: Collection[str] | None = None
    ) -> None:
        """Replace settings: ``requests.Configure``."""
        self.do(r.Configure(queue=queue, settings=settings, type=type, only=only))

    def settings(self, queue: str, *, type: str | None = None) -> QueueSettings:
        """Return settings: ``requests.Settings``."""
        return self.do(r.Settings(queue=queue, type=type))

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
        """Return a page of domains: ``requests.Domains``."""
        return self.do(r.Domains(queue=queue, status=status, name=name, limit=limit, after=after, now=now))

    def resume(
        self,
        queue: str,
        domain: str,
        action: ResumeAction = ResumeAction.RESUME,
        *,
        position: int | None = None,
        now: int | None = None,
    ) -> bool:
        """Let a domain go on: ``requests.Resume``."""
        return self.do(r.Resume(queue=queue, domain=domain, action=action, position=position, now=now))

    def forget_domain(self, queue: str, domain: str) -> bool:
        """Remove what a domain remembers: ``requests.ForgetDomain``."""
        return self.do(r.ForgetDomain(queue=queue, domain=domain))

    # The ledger.

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return a page of the ledger: ``requests.Ledger``."""
        return self.do(r.Ledger(after=after, limit=limit))

    def ledger_end(self) -> str:
        """Return the cursor of the end: ``requests.LedgerEnd``."""
        return self.do(r.LedgerEnd())

    def ledger_tail(self, before: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return the last rows: ``requests.LedgerTail``."""
        return self.do(r.LedgerTail(before=before, limit=limit))

    def ledger_tuples(self, after: str | None, limit: int) -> tuple[Sequence[Sequence[object]], str]:
        """Return a page as tuples: ``requests.ReadTuples``."""
        return self.do(r.ReadTuples(after=after, limit=limit))

    def ledger_marks(self, after: str | None, *, every: int, most: int) -> Sequence[tuple[str, int]]:
        """Return cursors that split the ledger: ``requests.LedgerMarks``."""
        return self.do(r.LedgerMarks(after=after, every=every, most=most))

    def ledger_delay(self) -> LedgerDelay | None:
        """Return the transaction that delays readers of the ledger: ``requests.Diagnose``."""
        return self.do(r.Diagnose()).ledger_delay

    # The registry and the spaces.

    def read(self, kind: str, keys: Sequence[str], *, now: int | None = None) -> list[Entry | None]:
        """Return entries by their keys: ``requests.Read``."""
        return self.do(r.Read(kind=kind, keys=keys, now=now))

    def write(self, changes: Sequence[Change], *, together: bool = False, now: int | None = None) -> list[Entry | None]:
        """Change entries: ``requests.Write``."""
        return self.do(r.Write(changes=changes, together=together, now=now))

    def scan(
        self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100, now: int | None = None
    ) -> list[Entry]:
        """Return a page of entries: ``requests.Scan``."""
        return self.do(r.Scan(kind=kind, prefix=prefix, after=after, limit=limit, now=now))

    def spaces(
        self, *, after: str = "", limit: int = 100, has_expired_leases: bool = False, now: int | None = None
    ) -> Page[str]:
        """Return a page of spaces: ``requests.Spaces``."""
        return self.do(r.Spaces(after=after, limit=limit, has_expired_leases=has_expired_leases, now=now))

    def remove_space(
        self, name: str, *, force: bool = False, limit: int = bounds.MAX_BATCH_ITEMS, now: int | None = None
    ) -> SpaceRemoval:
        """Remove rows of a space: ``requests.RemoveSpace``."""
        return self.do(r.RemoveSpace(name=name, force=force, limit=limit, now=now))
