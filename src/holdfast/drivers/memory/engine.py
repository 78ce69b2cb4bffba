"""The memory engine: a method per request, each on the dictionaries of one space, all under one lock."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TypeVar
from urllib.parse import SplitResult
from weakref import WeakValueDictionary

from holdfast.clock import SECOND, Clock, SystemClock, monotonic
from holdfast.drivers import requests as r
from holdfast.drivers.answers import (
    Diagnosis,
    Inspection,
    Page,
    QueueCounts,
    Reaped,
    Reserved,
    SpaceRemoval,
    Stored,
    Trimmed,
)
from holdfast.drivers.capabilities import Capabilities, Durability, Feature
from holdfast.drivers.engine import Engine
from holdfast.drivers.memory import admin, reserve, spaces
from holdfast.drivers.memory.domain_list import list_domains
from holdfast.drivers.memory.enqueue import enqueue_leased, enqueue_one, replace_dead
from holdfast.drivers.memory.settle import extend_one, reap, report_outage_of_one, settle_one
from holdfast.drivers.memory.space import Space
from holdfast.drivers.store import Store
from holdfast.drivers.url_options import read_options
from holdfast.errors import LeaseError, StoreClosed
from holdfast.model import bounds
from holdfast.model.domain import DomainInfo, ResumeAction
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings, replaces_key_limits
from holdfast.model.registry import Entry

A = TypeVar("A")


class MemoryStore:
    """What all spaces of one store share: the clock, the lock and the spaces themselves."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.lock = threading.Condition()
        self.changes = 0  # lets a waiting thread notice a change between its last reserve and its wait
        self.spaces: defaultdict[str, Space] = defaultdict(Space)
        self.is_closed = False


class MemoryEngine(Engine):
    """One space of a store in memory: for tests, simulations and single processes."""

    has_serial_arrivals = True
    has_numbered_ledger = True

    can = Capabilities(
        driver="memory",
        durability=Durability.MEMORY,
        gaps={
            Feature.JOINED: "there is no transaction to join",
            Feature.PROCESSES: "the store lives in one process",
            Feature.MACHINES: "the store lives in one process",
        },
    )

    def __init__(self, store: MemoryStore, *, space: str = "main", caller_clock: bool = False) -> None:
        self.space_name = bounds.check_name("space", space)
        self.caller_clock = caller_clock
        self._store = store
        with store.lock:  # of two threads that open a new space, only one makes it
            self._space = store.spaces[space]

    def execute(self, request: r.Request[A]) -> A:
        """Carry out a request under the lock."""
        with self._store.lock:
            if self._store.is_closed:
                raise StoreClosed
            return super().execute(request)

    def open_space(self, name: str) -> MemoryEngine:
        """Return another space of the store."""
        space = type(self)(self._store, space=name, caller_clock=self.caller_clock)
        space.can = self.can
        return space

    def close(self) -> None:
        """Close the store for all its spaces."""
        with self._store.lock:
            self._store.is_closed = True
            self._store.lock.notify_all()

    def _now(self, request: r.Request[A]) -> int:
        return self._store.clock.now() if request.now is None else request.now

    def _update(self, now: int) -> None:
        """Update which jobs wait for a limit, and wake the threads in ``wait``: jobs may have become due."""
        self._space.update_waits(now)
        self._wake()

    def _wake(self) -> None:
        self._store.changes += 1
        self._store.lock.notify_all()

    # The core ---------------------------------------------------------------------------------------------------

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Store jobs."""
        space, now, jobs = self._space, self._now(request), request.jobs
        if request.replace_dead_before is not None:
            self._replace_dead(request, request.replace_dead_before)
        if request.writes and (refused := space.registry.write_all(request.writes, now, job_id=jobs[0].id)):
            raise refused
        if request.lease is None:
            stored = Stored([enqueue_one(space, job, now) for job in jobs])
        else:
            lease = request.lease
            stored = Stored(*enqueue_leased(space, jobs, lease_for=lease.lease_for, worker=lease.worker, now=now))
        self._wake()
        return stored

    def _replace_dead(self, request: r.Enqueue, before: int) -> None:
        replace_dead(self._space, request.jobs, before, self.reader_cursors(request.now), self._now(request))

    def reserve(self, request: r.Reserve) -> Reserved:
        """Lease jobs."""
        now, end = self._now(request), self._space.ledger.end()
        mark = (self._store.changes, now)
        reservations = reserve.reserve(self._space, request, now)
        return Reserved(reservations, self._ended_after(end), mark)

    def extend(self, request: r.Extend) -> list[Lease | LeaseError]:
        """Extend leases."""
        now = self._now(request)
        expires_at = now + request.lease_for
        notes = request.notes
        return [
            extend_one(self._space, lease, notes.get(lease.job_id), expires_at=expires_at, now=now)
            for lease in request.leases
        ]

    def settle(self, request: r.Settle) -> list[LeaseError | None]:
        """End leases."""
        now = self._now(request)
        answers = [settle_one(self._space, settlement, now) for settlement in request.settlements]
        self._update(now)
        return answers

    def reap(self, request: r.Reap) -> Reaped:
        """End leases that have expired."""
        space, now, end = self._space, self._now(request), self._space.ledger.end()
        if request.leases is None:
            count, reported = reap(space, request, now), []
        else:
            reported = [report_outage_of_one(space, lease, now) for lease in request.leases]
            count = sum(reported)
        self._update(now)
        return Reaped(count, self._ended_after(end), reported)

    def _ended_after(self, end: int) -> list[LedgerRow]:
        return self._space.ledger.rows_after(end)

    def inspect(self, request: r.Inspect) -> dict[str, Inspection]:
        """Return jobs by their ids."""
        return admin.inspect(self._space, request.job_ids, payloads=request.payloads)

    def wait(self, request: r.Wait) -> None:
        """Return at a change since the mark of the last reserve, and at the next due instant."""
        queues, deadline = r.distinct(request.queues), monotonic() + request.timeout
        changes, instant = request.since or (self._store.changes, 0)
        while self._store.changes == changes and (left := deadline - monotonic()) > 0:
            if self._store.is_closed:
                raise StoreClosed
            now = self._store.clock.now()
            due_at = reserve.next_instant(self._space, queues, instant)
            if due_at is not None and due_at <= now:
                return
            if not self._store.lock.wait(left if due_at is None else min(left, (due_at - now) / SECOND)):
                return

    def wait_for_cancel(self, request: r.WaitForCancel) -> bool:
        """Return at a cancel request, which wakes the threads that wait."""

        def is_requested() -> bool:
            if self._store.is_closed:
                raise StoreClosed
            return admin.is_cancel_requested(self._space, request.job_ids)

        return self._store.lock.wait_for(is_requested, request.timeout)

    # Jobs -------------------------------------------------------------------------------------------------------

    def find(self, request: r.Find) -> Page[JobRecord]:
        """Return a page of jobs."""
        return admin.find(self._space, request.where, limit=request.limit, after=request.after, newest=request.newest)

    def any_open(self, request: r.AnyOpen) -> bool:
        """Whether a job is open."""
        return admin.any_open(self._space, request.queues, request.types)

    def counts(self, request: r.Counts) -> list[QueueCounts]:
        """Count jobs; those of a process are few enough to count them all."""
        return admin.counts(self._space, request.queues, request.counted, self._now(request))

    def requeue(self, request: r.Requeue) -> list[bool]:
        """Make ended jobs ready again."""
        now = self._now(request)
        answers = [admin.requeue_one(self._space, job_id, now) for job_id in request.job_ids]
        self._wake()
        return answers

    def cancel(self, request: r.Cancel) -> list[State | None]:
        """Cancel jobs."""
        now = self._now(request)
        answers = [admin.cancel_one(self._space, job_id, now) for job_id in request.job_ids]
        self._update(now)
        return answers

    def purge(self, request: r.Purge) -> list[bool]:
        """Remove ended jobs."""
        now = self._now(request)
        answers = admin.purge(self._space, request.job_ids, self.reader_cursors(request.now), now)
        self._update(now)
        return answers

    def trim(self, request: r.Trim) -> Trimmed:
        """Remove old rows."""
        keep, cursors = self.retention_of(request), self.reader_cursors(request.now)
        return admin.trim(self._space, keep, cursors, limit=request.limit, now=self._now(request))

    def diagnose(self, request: r.Diagnose) -> Diagnosis:
        """Return facts. Memory is not measured."""
        expired = self._space.expired([*self._space.leases], self._now(request) - request.expired_for)
        return Diagnosis(
            expired_leases=min(len(expired), r.REAP_LIMIT),
            trimmed_rows=self._space.ledger.trimmed,
        )

    # Queues and domains -----------------------------------------------------------------------------------------

    def configure(self, request: r.Configure) -> None:
        """Replace settings."""
        space, queue, type_ = self._space, request.queue, request.type
        before = space.settings_of(queue, type_)
        if not before.accepts(request.settings, request.only):
            return
        space.settings[queue, type_] = before.merge(request.settings, request.only)
        if type_ is None and replaces_key_limits(request.only):
            space.end_holds(queue)
        if type_ is None:
            space.apply_gaps(queue)
        self._wake()

    def settings(self, request: r.Settings) -> QueueSettings:
        """Return settings."""
        return self._space.settings_of(request.queue, request.type)

    def domains(self, request: r.Domains) -> Page[DomainInfo]:
        """Return a page of domains."""
        return list_domains(
            self._space,
            request.queue,
            status=request.status,
            name=request.name,
            limit=request.limit,
            after=request.start,
            now=self._now(request),
        )

    def resume(self, request: r.Resume) -> bool:
        """Let a domain go on."""
        now, place = self._now(request), (request.queue, request.domain)
        retry = request.action is ResumeAction.RETRY
        is_changed = self._space.resume(place, retry=retry, position=request.position, now=now)
        self._update(now)
        return is_changed

    def forget_domain(self, request: r.ForgetDomain) -> bool:
        """Remove what a domain remembers."""
        return self._space.forget_domain((request.queue, request.domain))

    # Ledger -----------------------------------------------------------------------------------------------------

    def ledger(self, request: r.Ledger) -> Page[LedgerRow]:
        """Return a page of the ledger."""
        return self._space.ledger.page(request.after, request.limit)

    def ledger_tail(self, request: r.LedgerTail) -> Page[LedgerRow]:
        """Return the last rows."""
        return self._space.ledger.tail(request.before, request.limit)

    def ledger_end(self, request: r.LedgerEnd) -> str:
        """Return the cursor of the end."""
        del request
        return str(self._space.ledger.end())

    # Registry and spaces ----------------------------------------------------------------------------------------

    def read(self, request: r.Read) -> list[Entry | None]:
        """Return entries by their keys."""
        now = self._now(request)
        return [self._space.registry.read(request.kind, key, now) for key in request.keys]

    def write(self, request: r.Write) -> list[Entry | None]:
        """Change entries."""
        return self._space.registry.write(request.changes, self._now(request), together=request.together)

    def scan(self, request: r.Scan) -> list[Entry]:
        """Return a page of entries."""
        return self._space.registry.scan(
            request.kind, prefix=request.prefix, after=request.after, limit=request.limit, now=self._now(request)
        )

    def spaces(self, request: r.Spaces) -> Page[str]:
        """Return a page of spaces."""
        return spaces.list_spaces(
            self._store.spaces,
            after=request.after,
            limit=request.limit,
            now=self._now(request),
            has_expired_leases=request.has_expired_leases,
        )

    def remove_space(self, request: r.RemoveSpace) -> SpaceRemoval:
        """Remove rows of a space."""
        name = request.name
        removal = spaces.remove(self._store.spaces[name], name, limit=request.limit, force=request.force)
        self._wake()
        return removal


_named_stores: WeakValueDictionary[str, MemoryStore] = WeakValueDictionary()
_naming = threading.Lock()  # of two threads that open a new name, only one makes the store


def open_url(url: SplitResult, *, space: str, caller_clock: bool, clock: Clock | None) -> Store:
    """Open ``memory://``, a new store, or ``memory://name``: one store per name in this process while it is in use."""
    read_options(url, {})
    if not url.netloc:
        return Store(MemoryEngine(MemoryStore(clock), space=space, caller_clock=caller_clock))
    with _naming:
        store = _named_stores.get(url.netloc)
        if store is None or store.is_closed:
            store = _named_stores[url.netloc] = MemoryStore(clock)
    return Store(MemoryEngine(store, space=space, caller_clock=caller_clock))
