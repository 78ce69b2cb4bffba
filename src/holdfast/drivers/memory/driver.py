"""The memory driver: each verb validates its arguments, takes the lock, and calls a function of a topic module."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn, Self
from urllib.parse import SplitResult
from weakref import WeakValueDictionary

from holdfast.clock import SECOND, Clock, SystemClock, monotonic
from holdfast.drivers.capabilities import Capabilities, Durability, Feature
from holdfast.drivers.contract import (
    REAP_LIMIT,
    DomainInfo,
    DomainStatus,
    Inspection,
    JobFilter,
    Page,
    QueueCounts,
    ResumeAction,
    Trimmed,
)
from holdfast.drivers.memory import admin, reserve, spaces
from holdfast.drivers.memory.domain_list import list_domains
from holdfast.drivers.memory.enqueue import enqueue_leased, enqueue_one, replace_dead
from holdfast.drivers.memory.settle import extend_one, reap, report_outage_of_one, settle_one
from holdfast.drivers.memory.space import Space
from holdfast.drivers.optional import SpaceRemoval
from holdfast.drivers.remembered_calls import RememberedCalls
from holdfast.drivers.url_options import read_options
from holdfast.drivers.validation import Validation
from holdfast.errors import LeaseError, StoreClosed, Unsupported
from holdfast.model import bounds
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings, replaces_key_limits
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Settlement


class MemoryStore:
    """What all spaces of one store share: the clock, the lock and the spaces themselves."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.lock = threading.Condition()
        self.changes = 0  # lets a waiting thread notice a change between its last reserve and its wait
        self.spaces: defaultdict[str, Space] = defaultdict(Space)
        self.is_closed = False


class MemoryDriver:
    """One space of a store in memory: for tests, simulations and single processes."""

    capabilities = Capabilities(
        driver="memory",
        durability=Durability.MEMORY,
        gaps={
            Feature.JOINED: "there is no transaction to join",
            Feature.PROCESSES: "the store lives in one process",
            Feature.MACHINES: "the store lives in one process",
        },
    )

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        caller_clock: bool = False,
        space: str = "main",
        store: MemoryStore | None = None,
    ) -> None:
        self._store = store or MemoryStore(clock)
        self.space_name = bounds.check_name("space", space)
        self._lock = self._store.lock
        with self._lock:  # of two threads that open a new space, only one makes it
            self._space = self._store.spaces[space]
        self._last_reserve = threading.local()  # .changes of the store and .instant when this thread reserved last
        self._expired: RememberedCalls[list[LedgerRow]] = RememberedCalls()
        self._caller_clock = caller_clock
        self._validation = Validation(self.capabilities, caller_clock=caller_clock, read_clock=self._store.clock.now)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_space(self) -> Space:
        """Return the space; the caller holds the lock."""
        if self._store.is_closed:
            raise StoreClosed
        return self._space

    def _open(self, now: int | None) -> tuple[Space, int]:
        """Return the space and the instant that decides about this call; the caller holds the lock."""
        return self._open_space(), self._validation.now(now)

    @contextmanager
    def _remember_expired(self, space: Space) -> Iterator[None]:
        """Remember the ledger rows of the leases that end in this block; the caller holds the lock."""
        end = space.ledger.end()
        yield
        if rows := space.ledger.rows_after(end):
            self._expired.add(rows)

    def _wake_waiters(self) -> None:
        """Wake the threads in ``wait``, because jobs may have become due."""
        self._store.changes += 1
        self._lock.notify_all()

    # Driver -----------------------------------------------------------------------------------------------------

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """Store new jobs and return one answer per record, in order."""
        self._validation.check_enqueue(jobs)
        if writes:
            self._validation.check_enqueue_writes(jobs, writes)
        with self._lock:
            space, at = self._open(now)
            if replace_dead_before is not None:
                self._validation.check_replace_dead(jobs, writes, replace_dead_before)
                self._replace_dead(space, jobs, replace_dead_before, at)
            if writes and (refused := space.registry.write_all(writes, at, job_id=jobs[0].id)):
                raise refused
            answers = [enqueue_one(space, job, at) for job in jobs]
            self._wake_waiters()
            return answers

    def _replace_dead(self, space: Space, jobs: Sequence[JobRecord], before: int, now: int) -> None:
        """Remove the dead jobs that these records replace, and free their keys; the caller holds the lock."""
        cursors = self._validation.reader_cursors(self, now=now if self._caller_clock else None)
        replace_dead(space, jobs, before, cursors, now)

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """Enqueue the jobs and lease all of them, or none of them, in one transaction."""
        self._validation.check_enqueue(jobs)
        self._validation.check_lease(lease_for, worker)
        with self._lock:
            space, at = self._open(now)
            answers = enqueue_leased(space, jobs, lease_for=lease_for, worker=worker, now=at)
            self._wake_waiters()
            return answers

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
        """Lease up to ``limit`` due jobs of these queues, and of these types if given, for ``lease_for``."""
        names = self._validation.check_reserve(
            queues, limit, lease_for, worker, types, max_bytes=max_bytes, isolation=isolation, prefetch=prefetch
        )
        with self._lock:
            space, at = self._open(now)
            self._last_reserve.changes, self._last_reserve.instant = self._store.changes, at
            with self._remember_expired(space):
                return reserve.reserve(
                    space,
                    names,
                    limit=limit,
                    lease_for=lease_for,
                    worker=worker,
                    types=types,
                    now=at,
                    max_bytes=max_bytes,
                    isolation=isolation,
                    prefetch=prefetch,
                )

    def extend(
        self,
        leases: Sequence[Lease],
        *,
        lease_for: int,
        notes: Mapping[str, Note] | None = None,
        now: int | None = None,
    ) -> list[Lease | LeaseError]:
        """Move the end of every valid lease to now + ``lease_for``, and store ``notes``, which are keyed by job id."""
        self._validation.check_extend(leases, lease_for)
        notes = notes or {}
        with self._lock:
            space, at = self._open(now)
            return [
                extend_one(space, lease, notes.get(lease.job_id), expires_at=at + lease_for, now=at) for lease in leases
            ]

    def settle(self, settlements: Sequence[Settlement], *, now: int | None = None) -> list[LeaseError | None]:
        """End leases, each as its settlement says; return None or the refusal of each one, in order."""
        self._validation.check_settle(settlements)
        with self._lock:
            space, at = self._open(now)
            answers = [settle_one(space, settlement, at) for settlement in settlements]
            space.update_waits(at)
            self._wake_waiters()
            return answers

    def reap(
        self,
        queues: Sequence[str] | None = None,
        *,
        worker: str | None = None,
        limit: int = REAP_LIMIT,
        now: int | None = None,
    ) -> int:
        """End up to ``limit`` expired leases, oldest first, in these queues or in all; return how many."""
        names = self._validation.check_reap(queues, worker, limit)
        with self._lock:
            space, at = self._open(now)
            with self._remember_expired(space):
                count = reap(space, names, worker=worker, limit=limit, now=at)
            space.update_waits(at)
            self._wake_waiters()
            return count

    def report_outage(self, leases: Sequence[Lease], *, now: int | None = None) -> list[bool]:
        """Report leases that expired while the caller could not reach the store."""
        self._validation.check_leases(leases)
        with self._lock:
            space, at = self._open(now)
            with self._remember_expired(space):
                answers = [report_outage_of_one(space, lease, at) for lease in leases]
            space.update_waits(at)
            self._wake_waiters()
            return answers

    def take_expired(self) -> list[LedgerRow]:
        """Return the ledger rows of the leases that ``reserve``, ``reap`` and ``report_outage`` ended as expired."""
        return [row for rows in self._expired.take() for row in rows]

    def wait(self, queues: Sequence[str], *, timeout: float) -> None:
        """Block until a job of these queues may be due, for at most ``timeout`` seconds.

        Returns at a change since this thread's last reserve, and at the next due instant.
        """
        names = self._validation.check_wait(queues, timeout)
        deadline = monotonic() + timeout
        with self._lock:
            self._open_space()
            changes_seen = getattr(self._last_reserve, "changes", -1)
            while self._store.changes == changes_seen and (left := deadline - monotonic()) > 0:
                space, now = self._open_space(), self._store.clock.now()
                instant = reserve.next_instant(space, names, self._last_reserve.instant)
                if instant is not None and instant <= now:
                    return
                if not self._lock.wait(left if instant is None else min(left, (instant - now) / SECOND)):
                    return

    def wait_for_cancel(self, job_ids: Collection[str], *, timeout: float) -> bool:
        """Block until a cancel is requested for one of these jobs in flight, for at most ``timeout`` seconds.

        A cancel wakes it.
        """
        self._validation.check_wait_for_cancel(job_ids, timeout)
        with self._lock:
            return self._lock.wait_for(lambda: admin.is_cancel_requested(self._open_space(), job_ids), timeout)

    def space(self, name: str) -> MemoryDriver:
        """Return another space of the same store, on the same connections."""
        return type(self)(caller_clock=self._caller_clock, space=name, store=self._store)

    def joined(self, connection: object) -> NoReturn:  # noqa: ARG002 - part of the contract
        """Raise ``Unsupported``: there is no transaction to join."""
        raise Unsupported("memory", Feature.JOINED, self.capabilities.gaps[Feature.JOINED])

    def close(self) -> None:
        """Close the connections, also those of the spaces."""
        with self._lock:
            self._store.is_closed = True
            self._lock.notify_all()

    # Admin ------------------------------------------------------------------------------------------------------

    def get(self, job_id: str) -> JobRecord | None:
        """Return a job in any state; None if the space has no job with this id."""
        bounds.check_name("id", job_id)
        with self._lock:
            row = self._open_space().rows.get(job_id)
            return None if row is None else row.job

    @property
    def has_serial_arrivals(self) -> bool:
        """Whether of two calls of enqueue one always commits before the other reads the clock."""
        return True

    def arrivals(self, job_ids: Sequence[str]) -> dict[str, int]:
        """Return the places of these jobs in the order of arrival (L11); a requeued job arrives again."""
        self._validation.check_ids(job_ids)
        with self._lock:
            rows = self._open_space().rows
            return {job_id: rows[job_id].seq for job_id in job_ids if job_id in rows}

    @property
    def has_numbered_ledger(self) -> bool:
        """Whether the cursor of a ledger row is its number, which counts all rows of the space from 1."""
        return True

    def trimmed_rows(self) -> int | None:
        """Return how many ledger rows ``trim`` has removed; None if it has removed some and does not count them."""
        with self._lock:
            return self._open_space().ledger.trimmed

    def inspect(self, job_ids: Sequence[str], *, payloads: bool = True) -> dict[str, Inspection]:
        """Return these jobs, in any state, with their leases and notes, by id."""
        self._validation.check_ids(job_ids)
        with self._lock:
            return admin.inspect(self._open_space(), job_ids, payloads=payloads)

    def find(
        self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None, newest: bool = False
    ) -> Page[JobRecord]:
        """Return a page of the jobs that match, ordered by id."""
        self._validation.check_find(limit, after)
        with self._lock:
            return admin.find(self._open_space(), where or JobFilter(), limit=limit, after=after, newest=newest)

    def webhooks(self, job_ids: Sequence[str]) -> dict[str, str]:
        """Return the webhooks of these jobs, in any state, by job id."""
        self._validation.check_ids(job_ids)
        with self._lock:
            return admin.webhooks(self._open_space(), job_ids)

    def any_open(self, queues: Sequence[str], types: Collection[str]) -> bool:
        """Whether a job of these types is ready, scheduled or in flight in these queues."""
        queue_names, type_names = self._validation.check_any_open(queues, types)
        with self._lock:
            return admin.any_open(self._open_space(), queue_names, type_names)

    def count_expired_leases(self, *, expired_for: int = 0, now: int | None = None) -> int:
        """Return how many leases expired at least so many microseconds ago and were not reaped; at most REAP_LIMIT."""
        with self._lock:
            space, at = self._open(now)
            return min(len(space.expired([*space.leases], at - expired_for)), REAP_LIMIT)

    def table_sizes(self) -> dict[str, int]:
        """Return the bytes that each table takes with its indexes, or each part of a store without sizes of tables.

        Memory is not measured.
        """
        return {}

    def counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Return one row per queue and type that has jobs, ordered by both."""
        counted = self._validation.check_counts(queues, states)
        with self._lock:
            space, at = self._open(now)
            return admin.counts(space, queues, counted, at)

    def estimate_counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Return what ``counts`` returns, and read a bounded number of rows, whatever the space contains.

        The jobs of a process are few enough to count them.
        """
        return self.counts(queues, states=states, now=now)

    def requeue(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Make dead or cancelled jobs ready again, attempts and crashes set to 0, as the last of their lanes (L9)."""
        self._validation.check_ids(job_ids)
        with self._lock:
            space, at = self._open(now)
            answers = [admin.requeue_one(space, job_id, at) for job_id in job_ids]
            self._wake_waiters()
            return answers

    def cancel(self, job_ids: Sequence[str], *, now: int | None = None) -> list[State | None]:
        """Cancel ready jobs at once, and request cancellation of running jobs."""
        self._validation.check_ids(job_ids)
        with self._lock:
            space, at = self._open(now)
            answers = [admin.cancel_one(space, job_id, at) for job_id in job_ids]
            space.update_waits(at)
            self._wake_waiters()
            return answers

    def purge(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Remove ended jobs, each with a ``purged`` ledger row."""
        self._validation.check_ids(job_ids)
        cursors = self._validation.reader_cursors(self, now=now)
        with self._lock:
            space, at = self._open(now)
            answers = admin.purge(space, job_ids, cursors, at)
            space.update_waits(at)
            self._wake_waiters()
            return answers

    def configure(
        self, queue: str, settings: QueueSettings, *, type: str | None = None, only: Collection[str] | None = None
    ) -> None:
        """Replace the settings of a queue, or of one type in it."""
        self._validation.check_settings(queue, settings, type, only)
        with self._lock:
            space = self._open_space()
            before = space.settings_of(queue, type)
            if not before.accepts(settings, only):
                return
            space.settings[queue, type] = before.merge(settings, only)
            if type is None and replaces_key_limits(only):
                space.end_holds(queue)
            if type is None:
                space.apply_gaps(queue)
            self._wake_waiters()

    def settings(self, queue: str, *, type: str | None = None) -> QueueSettings:
        """Return the settings of a queue, or of one type in it; the defaults if none were configured."""
        self._validation.check_settings(queue, None, type)
        with self._lock:
            return self._open_space().settings_of(queue, type)

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
        """Return a page of the domains that have an open job or are halted, ordered by queue and name."""
        behind = self._validation.check_domains(queue, status, name, limit, after)
        with self._lock:
            space, at = self._open(now)
            return list_domains(space, queue, status=status, name=name, limit=limit, after=behind, now=at)

    def resume(
        self,
        queue: str,
        domain: str,
        action: ResumeAction = ResumeAction.RESUME,
        *,
        position: int | None = None,
        now: int | None = None,
    ) -> bool:
        """Let a halted domain go on, as ``action`` says; return whether this call changed the domain."""
        self._validation.check_resume(queue, domain, action, position)
        with self._lock:
            space, at = self._open(now)
            is_changed = space.resume((queue, domain), retry=action is ResumeAction.RETRY, position=position, now=at)
            space.update_waits(at)
            self._wake_waiters()
            return is_changed

    def forget_domain(self, queue: str, domain: str) -> bool:
        """Remove what a domain without open jobs remembers: its ended offsets, its start and its halt."""
        self._validation.check_forget_domain(queue, domain)
        with self._lock:
            return self._open_space().forget_domain((queue, domain))

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return a page of the ledger, in an order that is fixed and has no gaps (L13)."""
        self._validation.check_page(limit)
        with self._lock:
            return self._open_space().ledger.page(after, limit)

    def ledger_end(self) -> str:
        """Return the cursor of the end: ``ledger`` after it has only rows that are written from now on."""
        with self._lock:
            return str(self._open_space().ledger.end())

    def ledger_tail(self, before: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return the last ``limit`` rows up to the cursor ``before``, in the order of the ledger; None is the end."""
        self._validation.check_page(limit)
        with self._lock:
            return self._open_space().ledger.tail(before, limit)

    def trim(
        self,
        *,
        ended_for: int | None = None,
        ledger_for: int | None = None,
        limit: int = bounds.MAX_BATCH_ITEMS,
        now: int | None = None,
    ) -> Trimmed:
        """Remove old rows: done and cancelled jobs, ledger rows, idempotency keys and registry entries."""
        self._validation.check_trim(ended_for, ledger_for, limit)
        keep = self._validation.retention(self, ended_for=ended_for, ledger_for=ledger_for, now=now)
        cursors = self._validation.reader_cursors(self, now=now)
        with self._lock:
            space, at = self._open(now)
            return admin.trim(space, keep, cursors, limit=limit, now=at)

    # Spaces -----------------------------------------------------------------------------------------------------

    def spaces(
        self, *, after: str = "", limit: int = 100, has_expired_leases: bool = False, now: int | None = None
    ) -> Page[str]:
        """Return a page of the names of the spaces that have rows, in order."""
        self._validation.check_spaces(after, limit)
        with self._lock:
            _, at = self._open(now)
            return spaces.list_spaces(
                self._store.spaces, after=after, limit=limit, now=at, has_expired_leases=has_expired_leases
            )

    def remove_space(
        self, name: str, *, force: bool = False, limit: int = bounds.MAX_BATCH_ITEMS, now: int | None = None
    ) -> SpaceRemoval:
        """Remove up to ``limit`` rows of a space: its jobs, ledger, keys, settings and registry."""
        self._validation.check_page(limit)
        bounds.check_name("space", name)
        with self._lock:
            self._open(now)
            removal = spaces.remove(self._store.spaces[name], name, limit=limit, force=force)
            self._wake_waiters()
            return removal

    # Registry ---------------------------------------------------------------------------------------------------

    def read(self, kind: str, keys: Sequence[str], *, now: int | None = None) -> list[Entry | None]:
        """Return the entries under these keys, in order; None where there is none or it has expired."""
        self._validation.check_read(kind, keys)
        with self._lock:
            space, at = self._open(now)
            return [space.registry.read(kind, key, at) for key in keys]

    def write(self, changes: Sequence[Change], *, now: int | None = None) -> list[Entry | None]:
        """Make the changes in order, each only if the entry has the expected version."""
        self._validation.check_write(changes)
        with self._lock:
            space, at = self._open(now)
            return space.registry.write(changes, at)

    def scan(
        self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100, now: int | None = None
    ) -> list[Entry]:
        """Return the entries of a kind whose keys begin with ``prefix``, ordered by key, after the key ``after``."""
        self._validation.check_scan(kind, prefix, after, limit)
        with self._lock:
            space, at = self._open(now)
            return space.registry.scan(kind, prefix=prefix, after=after, limit=limit, now=at)


_named_stores: WeakValueDictionary[str, MemoryStore] = WeakValueDictionary()
_naming = threading.Lock()  # of two threads that open a new name, only one makes the store


def open_url(url: SplitResult, *, space: str, caller_clock: bool, clock: Clock | None) -> MemoryDriver:
    """Open ``memory://``, a new store, or ``memory://name``: one store per name in this process while it is in use."""
    read_options(url, {})
    if not url.netloc:
        return MemoryDriver(clock, caller_clock=caller_clock, space=space)
    with _naming:
        store = _named_stores.get(url.netloc)
        if store is None or store.is_closed:
            store = _named_stores[url.netloc] = MemoryStore(clock)
    return MemoryDriver(caller_clock=caller_clock, space=space, store=store)
