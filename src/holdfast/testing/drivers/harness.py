"""How a driver sits the exam: it says how its store is opened, and gets short words for everything a case does.

A driver joins with one method::

    class MyHarness(Harness):
        def open(self, *, space: str, caller_clock: bool) -> Store:
            return MyDriver("db.example", space=space, caller_clock=caller_clock)
"""

from __future__ import annotations

import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from holdfast.clock import SECOND
from holdfast.connect import connect
from holdfast.drivers.contract import REAP_LIMIT, Capabilities, Feature, Inspection, Store
from holdfast.errors import LeaseError
from holdfast.model.job import JobRecord, State
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.ledger import LedgerRow
from holdfast.model.settlement import Settlement

START = 1_800_000_000 * SECOND  # the instant at which every case begins
LEASE = 30 * SECOND
QUEUE = "q"
TYPE = "work"
WORKER = "w"

A = TypeVar("A")


class Skipped(Exception):
    """The driver does not offer what this case is about; the message is the driver's own reason."""


class Harness(ABC):
    """One driver in the exam. Each case gets an empty space and a clock that moves only when told to."""

    url: str | None = None  # for cases that start processes; None skips them

    def __init__(self) -> None:
        self._main: Store | None = None
        self._opened: list[Store] = []
        self._store: Store | None = None
        self._run = secrets.token_hex(4)
        self._spaces = 0
        self._jobs = 0
        self._now = START
        self.space = ""

    # What a driver brings -----------------------------------------------------------------------------------------

    @abstractmethod
    def open(self, *, space: str, caller_clock: bool) -> Store:
        """A new connection: to the one store where several can be open at once, else to a new, empty store."""

    # Around a case ------------------------------------------------------------------------------------------------

    @contextmanager
    def fresh(self) -> Iterator[Self]:
        """An empty space, the clock at its start; whatever the case opens is closed behind it."""
        if self._main is None:
            self._main = self.open(space=self.another_name(), caller_clock=True)
        self.space = self.another_name()
        if self._offers(Feature.SPACES):
            self._store = self._main.space(self.space)
        else:
            self._store = self.disposable()
        self._now, self._jobs = START, 0
        try:
            yield self
        finally:
            while self._opened:
                self._opened.pop().close()

    def close(self) -> None:
        """Close the store that all cases shared."""
        if self._main is not None:
            self._main.close()
            self._main = None

    # The stores ---------------------------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """The store under examination, in this case's own space."""
        assert self._store is not None, "wanted a store inside `with harness.fresh()`"
        return self._store

    @property
    def capabilities(self) -> Capabilities:
        """What the driver says it keeps."""
        if self._main is None:
            self._main = self.open(space=self.another_name(), caller_clock=True)
        return self._main.capabilities

    def another(self) -> Store:
        """A second connection to this case's space; a store that lives in one process has only further views."""
        if self._offers(Feature.PROCESSES):
            return self.disposable()
        return self.store.space(self.space) if self._offers(Feature.SPACES) else self.store

    def disposable(self, *, space: str | None = None) -> Store:
        """A store that the case may close."""
        return self._keep(self.open(space=space or self.space, caller_clock=True))

    def wall(self) -> Store:
        """A store opened as in production: it reads its own clock and refuses another."""
        return self._keep(self.open(space=self.another_name(), caller_clock=False))

    def elsewhere(self) -> Store:
        """Another, empty space of the same store."""
        reason = self.capabilities.gaps.get(Feature.SPACES)
        if reason is not None:
            raise Skipped(reason)
        return self.store.space(self.another_name())

    def another_name(self) -> str:
        """A name for a space that nobody has used."""
        self._spaces += 1
        return f"conform-{self._run}-{self._spaces}"

    # Time ---------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The case's instant. A driver that cannot take it from the caller skips every case that asks."""
        reason = self.capabilities.gaps.get(Feature.CALLER_CLOCK)
        if reason is not None:
            raise Skipped(reason)
        return self._now

    def advance(self, length: int) -> int:
        """Move the clock forward; gives the new instant."""
        self._now = self.now + length
        return self._now

    def advance_to(self, instant: int) -> int:
        """Move the clock to an instant."""
        return self.advance(instant - self.now)

    @property
    def stamp(self) -> int | None:
        """What is passed as ``now``: the case's instant, or nothing to a driver that reads only its own clock."""
        return self._now if self._offers(Feature.CALLER_CLOCK) else None

    # Verbs, with defaults that keep a case short --------------------------------------------------------------------

    def job(self, **fields: Any) -> JobRecord:
        """A record with a fresh id, not yet enqueued. Ids sort in the order in which they were made."""
        self._jobs += 1
        defaults: dict[str, Any] = {
            "id": f"job-{self._jobs:05d}",
            "type": TYPE,
            "queue": QUEUE,
            "payload": b"{}",
            "created_at": self._now,
        }
        return JobRecord(**{**defaults, **fields})

    def alike(self, payloads: Sequence[bytes], keys: Sequence[str | None] | None = None, **fields: Any) -> JobBatch:
        """Many such records that differ only in id, payload and key."""
        return JobBatch(self.job(**fields), [self.job().id for _ in payloads], payloads, keys)

    def enqueue(self, *jobs: JobRecord) -> list[Enqueued]:
        """Enqueue records now."""
        return self.store.enqueue(jobs, now=self.stamp)

    def put(self, **fields: Any) -> JobRecord:
        """Enqueue one new job."""
        job = self.job(**fields)
        [answer] = self.enqueue(job)
        assert answer == Enqueued(id=job.id, existed=False), f"wanted a new job {job.id}, got {answer}"
        return job

    def reserve(
        self,
        limit: int = 1,
        *,
        queues: Sequence[str] = (QUEUE,),
        lease_for: int = LEASE,
        worker: str = WORKER,
        types: Collection[str] | None = None,
    ) -> list[Reservation]:
        """Reserve now."""
        return self.store.reserve(queues, limit=limit, lease_for=lease_for, worker=worker, types=types, now=self.stamp)

    def taken(self, limit: int = 1, **options: Any) -> list[str]:
        """Reserve now; gives the ids, in the order of the answer."""
        return [reservation.job.id for reservation in self.reserve(limit, **options)]

    def take(self, **options: Any) -> Reservation:
        """Reserve one job, which must be there."""
        found = self.reserve(1, **options)
        assert len(found) == 1, f"wanted one reservation, got {len(found)}"
        return found[0]

    def held(self, *, lease_for: int = LEASE, worker: str = WORKER, **fields: Any) -> Reservation:
        """A new job in flight."""
        job = self.put(**fields)
        found = self.take(queues=[job.queue], lease_for=lease_for, worker=worker)
        assert found.job.id == job.id, f"wanted {job.id} reserved, got {found.job.id}"
        return found

    def extend(
        self, *leases: Lease, lease_for: int = LEASE, notes: Mapping[str, Note] | None = None
    ) -> list[Lease | LeaseError]:
        """Extend now."""
        return self.store.extend(leases, lease_for=lease_for, notes=notes, now=self.stamp)

    def extended(self, lease: Lease, *, lease_for: int = LEASE, note: Note | None = None) -> Lease:
        """Extend one lease, which must be valid."""
        [answer] = self.extend(lease, lease_for=lease_for, notes=None if note is None else {lease.job_id: note})
        assert isinstance(answer, Lease), f"wanted the lease extended, got {answer!r}"
        return answer

    def settle(self, *settlements: Settlement) -> list[LeaseError | None]:
        """Settle now; gives the answers."""
        return self.store.settle(settlements, now=self.stamp)

    def settled(self, *settlements: Settlement) -> None:
        """Settle now; every one must be accepted."""
        answers = self.settle(*settlements)
        assert answers == [None] * len(settlements), f"wanted all accepted, got {answers!r}"

    def reap(self, queues: Sequence[str] | None = None, *, worker: str | None = None, limit: int = REAP_LIMIT) -> int:
        """Reap now."""
        return self.store.reap(queues, worker=worker, limit=limit, now=self.stamp)

    def lapse(self, *, length: int = LEASE) -> int:
        """Let a lease's length pass and reap; gives how many ended."""
        self.advance(length)
        return self.reap()

    def cancel(self, *job_ids: str) -> list[State | None]:
        """Cancel now."""
        return self.store.cancel(job_ids, now=self.stamp)

    def requeue(self, *job_ids: str) -> list[bool]:
        """Requeue now."""
        return self.store.requeue(job_ids, now=self.stamp)

    def purge(self, *job_ids: str) -> list[bool]:
        """Purge now."""
        return self.store.purge(job_ids, now=self.stamp)

    # Looking --------------------------------------------------------------------------------------------------------

    def get(self, job_id: str) -> JobRecord:
        """The job, which must be known."""
        job = self.store.get(job_id)
        assert job is not None, f"wanted {job_id} to be known, got None"
        return job

    def inspect(self, job_id: str) -> Inspection:
        """The job with its lease, which must be known."""
        found = self.store.inspect(job_id)
        assert found is not None, f"wanted {job_id} to be known, got None"
        return found

    def state(self, job_id: str) -> State:
        """Where the job stands."""
        return self.get(job_id).state

    def ledger(self) -> list[LedgerRow]:
        """Every row of the space, read page by page; nothing if the driver keeps no ledger."""
        if not self._offers(Feature.LEDGER):
            return []
        rows: list[LedgerRow] = []
        cursor: str | None = None
        while True:
            page = self.store.ledger(after=cursor)
            if not page.items:
                return rows
            rows += page.items
            cursor = page.cursor

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Whatever happens inside must leave every job, lease, note and ledger row of the space as it was."""
        before = self._snapshot()
        yield
        after = self._snapshot()
        for what, was in before.items():
            assert after.get(what) == was, f"wanted {what} unchanged: {was!r}, got {after.get(what)!r}"
        assert len(after) == len(before), f"wanted nothing new, got {sorted(set(after) - set(before))}"

    def _snapshot(self) -> dict[str, object]:
        jobs = self.store.find(limit=1000).items
        return {"the ledger": self.ledger(), **{job.id: self.store.inspect(job.id) for job in jobs}}

    # Crowds -----------------------------------------------------------------------------------------------------------

    def together(self, *acts: Callable[[], A]) -> list[A]:
        """Run these in one thread each, let go at the same moment; gives their answers, raises what they raise."""
        gate = threading.Barrier(len(acts))

        def through(act: Callable[[], A]) -> A:
            gate.wait(timeout=30)
            return act()

        with ThreadPoolExecutor(len(acts)) as pool:
            return [future.result() for future in [pool.submit(through, act) for act in acts]]

    def _offers(self, feature: Feature) -> bool:
        return self.capabilities.has(feature)

    def _keep(self, store: Store) -> Store:
        self._opened.append(store)
        return store


class UrlHarness(Harness):
    """Any store that ``holdfast.connect`` opens."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def open(self, *, space: str, caller_clock: bool) -> Store:
        """Connect once more."""
        return connect(self.url or "", space=space, caller_clock=caller_clock)
