"""The base of the faulty drivers: the memory driver, with methods that a bug overrides."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar

from holdfast.clock import Clock
from holdfast.drivers.contract import REAP_LIMIT, Store
from holdfast.drivers.memory.domains import Domain
from holdfast.drivers.memory.driver import MemoryDriver, MemoryStore
from holdfast.drivers.memory.enqueue import enqueue_one
from holdfast.drivers.memory.reserve import is_prefetched, lease_rows, pick_rows
from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.settle import end_leases, extend_one, settle_one
from holdfast.drivers.memory.space import Space
from holdfast.drivers.validation import Validation
from holdfast.errors import LeaseError
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.registry import Change
from holdfast.model.settlement import Settlement
from holdfast.model.transition import Transition
from holdfast.testing.drivers.harness import Harness

RACE_WINDOW_SECONDS = 0.005  # long enough that every thread of a race arrives between the two steps


class FaultyDriver(MemoryDriver):
    """A driver without a bug. A subclass overrides a method, or sets one of these.

    ``space_type`` is the class of its spaces, ``validation`` checks the arguments of its calls, and
    ``alter_transition`` changes the transition of a job whose lease ends.
    """

    space_type: ClassVar[type[FaultySpace]]
    validation: ClassVar[type[Validation]] = Validation

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        caller_clock: bool = False,
        space: str = "main",
        store: MemoryStore | None = None,
    ) -> None:
        shared = store or MemoryStore(clock)
        shared.spaces.default_factory = lambda: self.space_type(self)
        super().__init__(caller_clock=caller_clock, space=space, store=shared)
        self._validation = self.validation(self.capabilities, caller_clock=caller_clock, read_clock=shared.clock.now)

    # The calls that most bugs are in, written item by item, so that a subclass can override one step.

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """See ``Driver.enqueue``."""
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
            answers = [self._enqueue(space, job, at) for job in jobs]
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
        """See ``Driver.reserve``."""
        names = self._validation.check_reserve(
            queues, limit, lease_for, worker, types, max_bytes=max_bytes, isolation=isolation, prefetch=prefetch
        )
        with self._lock:
            space, at = self._open(now)
            self._last_reserve.changes, self._last_reserve.instant = self._store.changes, at
            with self._remember_expired(space):
                end_leases(space, space.expired(names, at)[:REAP_LIMIT], at)
            space.find_gaps(names, at)
            rows = self._pick(space, names, types, limit, at, max_bytes=max_bytes, isolation=isolation)
            prefetched = self._is_prefetched(rows, isolation, prefetch=prefetch)
            return lease_rows(space, rows, expires_at=at + lease_for, worker=worker, now=at, prefetched=prefetched)

    def extend(
        self,
        leases: Sequence[Lease],
        *,
        lease_for: int,
        notes: Mapping[str, Note] | None = None,
        now: int | None = None,
    ) -> list[Lease | LeaseError]:
        """See ``Driver.extend``."""
        self._validation.check_extend(leases, lease_for)
        with self._lock:
            space, at = self._open(now)
            return [self._extend(space, lease, at, at + lease_for, (notes or {}).get(lease.job_id)) for lease in leases]

    def settle(self, settlements: Sequence[Settlement], *, now: int | None = None) -> list[LeaseError | None]:
        """See ``Driver.settle``."""
        self._validation.check_settle(settlements)
        with self._lock:
            space, at = self._open(now)
            answers = [self._settle(space, settlement, at) for settlement in settlements]
            space.update_waits(at)
            self._wake_waiters()
            return answers

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        return enqueue_one(space, job, now)

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        return pick_rows(space, queues, types, limit, now, **rules)

    def _is_prefetched(self, rows: list[Row], isolation: Isolation, *, prefetch: bool) -> bool:
        return is_prefetched(rows, isolation, prefetch=prefetch)

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


class FaultyHarness(Harness):
    """The harness for a faulty driver."""

    def __init__(self, driver: type[MemoryDriver]) -> None:
        super().__init__()
        self._driver = driver

    def open(self, *, space: str, caller_clock: bool) -> Store:
        """Open a new, empty store."""
        return self._driver(space=space, caller_clock=caller_clock)
