"""The base of the faulty drivers: the memory engine, with methods that a bug overrides."""

from __future__ import annotations

import time
from collections.abc import Collection
from copy import deepcopy
from typing import Any, ClassVar

from holdfast.drivers import requests as r
from holdfast.drivers.answers import Reserved, Stored
from holdfast.drivers.memory.domains import Domain
from holdfast.drivers.memory.engine import MemoryEngine, MemoryStore
from holdfast.drivers.memory.enqueue import enqueue_one
from holdfast.drivers.memory.reserve import is_prefetched, lease_rows, pick_rows
from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.settle import end_leases, extend_one, settle_one
from holdfast.drivers.memory.space import Space
from holdfast.drivers.store import Store
from holdfast.errors import LeaseError
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued, Lease, Note
from holdfast.model.settlement import Settlement
from holdfast.model.transition import Transition
from holdfast.testing.drivers.harness import Harness

RACE_WINDOW_SECONDS = 0.005  # long enough that every thread of a race arrives between the two steps


class FaultyDriver(MemoryEngine):
    """A driver without a bug. A subclass overrides a method, or sets one of these.

    ``space_type`` is the class of its spaces, ``store_type`` the store in front of it, and ``alter_transition`` changes
    the transition of a job whose lease ends.
    """

    space_type: ClassVar[type[FaultySpace]]
    store_type: ClassVar[type[Store]] = Store

    def __init__(self, store: MemoryStore, *, space: str = "main", caller_clock: bool = False) -> None:
        store.spaces.default_factory = lambda: self.space_type(self)
        super().__init__(store, space=space, caller_clock=caller_clock)

    # The calls that most bugs are in, written item by item, so that a subclass can override one step.

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Store jobs."""
        if request.lease is not None:
            return super().enqueue(request)
        space, now, jobs = self._space, self._now(request), request.jobs
        if request.replace_dead_before is not None:
            self._replace_dead(request, request.replace_dead_before)
        if request.writes and (refused := space.registry.write_all(request.writes, now, job_id=jobs[0].id)):
            raise refused
        answers = [self._enqueue(space, job, now) for job in jobs]
        self._wake()
        return Stored(answers)

    def reserve(self, request: r.Reserve) -> Reserved:
        """Lease jobs."""
        space, now, end = self._space, self._now(request), self._space.ledger.end()
        queues, mark = r.distinct(request.queues), (self._store.changes, now)
        end_leases(space, space.expired(queues, now)[: r.REAP_LIMIT], now)
        ended = self._ended_after(end)
        space.find_gaps(queues, now)
        rows = self._pick(
            space, queues, request.types, request.limit, now, max_bytes=request.max_bytes, isolation=request.isolation
        )
        reservations = lease_rows(
            space,
            rows,
            expires_at=now + request.lease_for,
            worker=request.worker,
            now=now,
            prefetched=self._is_prefetched(rows, request),
        )
        return Reserved(reservations, ended, mark)

    def extend(self, request: r.Extend) -> list[Lease | LeaseError]:
        """Extend leases."""
        now = self._now(request)
        expires_at, notes = now + request.lease_for, request.notes
        return [self._extend(self._space, lease, now, expires_at, notes.get(lease.job_id)) for lease in request.leases]

    def settle(self, request: r.Settle) -> list[LeaseError | None]:
        """End leases."""
        now = self._now(request)
        answers = [self._settle(self._space, settlement, now) for settlement in request.settlements]
        self._update(now)
        return answers

    def let_others_in(self) -> None:
        """Let other threads call the store between two steps of this call."""
        self._store.lock.release()
        time.sleep(RACE_WINDOW_SECONDS)
        self._store.lock.acquire()

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        return enqueue_one(space, job, now)

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        return pick_rows(space, queues, types, limit, now, **rules)

    def _is_prefetched(self, rows: list[Row], request: r.Reserve) -> bool:
        return is_prefetched(rows, request.isolation, prefetch=request.prefetch)

    def _extend(self, space: Space, lease: Lease, now: int, expires_at: int, note: Note | None) -> Lease | LeaseError:
        return extend_one(space, lease, note, expires_at=expires_at, now=now)

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        return settle_one(space, settlement, now)

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:  # noqa: ARG002 - for subclasses
        """Return the transition unchanged."""
        return transition


class FaultySpace(Space):
    """A space that lets its driver alter every transition. ``domain_type`` is the class of its domains."""

    domain_type: ClassVar[type[Domain]] = Domain

    def __init__(self, driver: FaultyDriver) -> None:
        super().__init__()
        self.driver = driver
        self.domains.default_factory = self.domain_type

    def __deepcopy__(self, memo: dict[int, object]) -> FaultySpace:
        """Copy the rows, share the driver."""
        copied = type(self)(self.driver)
        copied.__dict__.update({name: deepcopy(value, memo) for name, value in vars(self).items() if name != "driver"})
        return copied

    def end(self, row: Row, transition: Transition, verb: str, now: int, started_at: int | None = None) -> None:
        """End a lease with the altered transition."""
        super().end(row, self.driver.alter_transition(row, transition, verb, now), verb, now, started_at)


FaultyDriver.space_type = FaultySpace


def open_faulty(driver: type[FaultyDriver], *, space: str = "main", caller_clock: bool = True) -> Store:
    """Return a new, empty store of this driver."""
    return driver.store_type(driver(MemoryStore(), space=space, caller_clock=caller_clock))


class FaultyHarness(Harness):
    """The harness for a faulty driver."""

    def __init__(self, driver: type[FaultyDriver]) -> None:
        super().__init__()
        self._driver = driver

    def open(self, *, space: str, caller_clock: bool) -> Store:
        """Open a new, empty store."""
        return open_faulty(self._driver, space=space, caller_clock=caller_clock)
