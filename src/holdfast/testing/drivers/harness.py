"""The harness of the conformance suite: it opens the driver's store and provides short calls with defaults.

A driver implements one method::

    class MyHarness(Harness):
        def open(self, *, space: str, caller_clock: bool) -> Store:
            return MyDriver("db.example", space=space, caller_clock=caller_clock)
"""

from __future__ import annotations

import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from holdfast.clock import SECOND
from holdfast.connect import connect
from holdfast.drivers.answers import Inspection
from holdfast.drivers.capabilities import Capabilities, Feature
from holdfast.drivers.requests import REAP_LIMIT, Cancel, Extend, Inspect, Purge, Reap, Requeue, Reserve
from holdfast.drivers.store import Store
from holdfast.errors import LeaseError
from holdfast.model.job import JobRecord, State
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.ledger import LedgerRow
from holdfast.model.settlement import Settlement

START = 1_800_000_000 * SECOND  # the instant at which every case starts
LEASE = 30 * SECOND
QUEUE = "q"
TYPE = "work"
WORKER = "w"

T = TypeVar("T")


class CaseSkipped(Exception):
    """The driver does not support what the case needs; the message is the driver's own reason."""


class Harness(ABC):
    """One driver under test. Each case gets an empty space and a clock that moves only when the case advances it."""

    url: str | None = None  # for cases that start processes; None skips these cases
    patience_seconds = 20.0  # of a wait that must end by itself; half of this is too late

    def __init__(self) -> None:
        self._main: Store | None = None
        self._opened: list[Store] = []
        self._store: Store | None = None
        self._run = secrets.token_hex(4)
        self._spaces = 0
        self._job_ids: list[str] = []
        self._now = START
        self.space_name = ""

    # The driver implements this -------------------------------------------------------------------------------------

    @abstractmethod
    def open(self, *, space: str, caller_clock: bool) -> Store:
        """Open a new connection.

        A store that allows several connections returns another one to the same store. A store that does not returns a
        new, empty store.
        """

    # Before and after a case ----------------------------------------------------------------------------------------

    @contextmanager
    def empty_space(self) -> Iterator[Self]:
        """Give the case an empty space and reset the clock; afterwards close every store that the case opened."""
        if self._main is None:
            self._main = self.open(space=self.new_space_name(), caller_clock=True)
        self.space_name = self.new_space_name()
        if self._offers(Feature.SPACES):
            self._store = self._main.space(self.space_name)
        else:
            self._store = self.open_store()
        self._now, self._job_ids = START, []
        try:
            yield self
        finally:
            while self._opened:
                self._opened.pop().close()

    def close(self) -> None:
        """Close the store that all cases share."""
        if self._main is not None:
            self._main.close()
            self._main = None

    # Stores ---------------------------------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """The store under test, in the space of the current case."""
        assert self._store is not None, "wanted a store inside `with harness.empty_space()`"
        return self._store

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities that the driver declares."""
        if self._main is None:
            self._main = self.open(space=self.new_space_name(), caller_clock=True)
        return self._main.capabilities

    def connect_again(self) -> Store:
        """Return a second connection to the case's space, or a second view if the store exists in one process only."""
        if self._offers(Feature.PROCESSES):
            return self.open_store()
        return self.store.space(self.space_name) if self._offers(Feature.SPACES) else self.store

    def open_store(self, *, space: str | None = None) -> Store:
        """Open a store that the case may close."""
        return self._close_later(self.open(space=space or self.space_name, caller_clock=True))

    def open_with_store_clock(self) -> Store:
        """Open a store as in production: it reads its own clock and refuses the caller's ``now``."""
        return self._close_later(self.open(space=self.new_space_name(), caller_clock=False))

    def open_other_space(self) -> Store:
        """Return another, empty space of the same store."""
        reason = self.capabilities.gaps.get(Feature.SPACES)
        if reason is not None:
            raise CaseSkipped(reason)
        return self.store.space(self.new_space_name())

    def new_space_name(self) -> str:
        """Return a name that no space has yet."""
        self._spaces += 1
        return f"conform-{self._run}-{self._spaces}"

    # Time -----------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The case's current instant. For a driver without a caller's clock, reading it skips the case."""
        reason = self.capabilities.gaps.get(Feature.CALLER_CLOCK)
        if reason is not None:
            raise CaseSkipped(reason)
        return self._now

    def advance(self, length: int) -> int:
        """Move the clock forward; return the new instant."""
        self._now = self.now + length
        return self._now

    def advance_to(self, instant: int) -> int:
        """Move the clock to an instant."""
        return self.advance(instant - self.now)

    @property
    def now_or_none(self) -> int | None:
        """The value to pass as ``now``: the case's instant, or None for a driver that reads only its own clock."""
        return self._now if self._offers(Feature.CALLER_CLOCK) else None

    # Calls, with defaults that keep a case short --------------------------------------------------------------------

    def job(self, **fields: Any) -> JobRecord:
        """Return a record with a new id, not yet enqueued. Ids sort in the order in which they were created."""
        defaults: dict[str, Any] = {
            "id": f"job-{len(self._job_ids) + 1:05d}",
            "type": TYPE,
            "queue": QUEUE,
            "payload": b"{}",
            "created_at": self._now,
        }
        job = JobRecord(**{**defaults, **fields})
        self._job_ids.append(job.id)
        return job

    def job_batch(
        self,
        payloads: Sequence[bytes],
        keys: Sequence[str | None] | None = None,
        signatures: Sequence[str | None] | None = None,
        limit_keys: Sequence[str | None] | None = None,
        **fields: Any,
    ) -> JobBatch:
        """Return records that differ only in id, payload, idempotency key, signature and limit key."""
        ids = [self.job().id for _ in payloads]
        return JobBatch(self.job(**fields), ids, payloads, keys, signatures, limit_keys=limit_keys)

    def enqueue(self, *jobs: JobRecord) -> list[Enqueued]:
        """Enqueue records now."""
        return self.store.enqueue(jobs, now=self.now_or_none)

    def enqueue_job(self, **fields: Any) -> JobRecord:
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
        **options: Any,
    ) -> list[Reservation]:
        """Reserve now."""
        terms = {"queues": queues, "limit": limit, "lease_for": lease_for, "worker": worker, "now": self.now_or_none}
        return self.store.do(Reserve(**{**terms, **options})).reservations

    def reserve_ids(self, limit: int = 1, **options: Any) -> list[str]:
        """Reserve now; return the job ids in the order of the answer."""
        return [reservation.job.id for reservation in self.reserve(limit, **options)]

    def reserve_one(self, **options: Any) -> Reservation:
        """Reserve one job; fail the case if there is none."""
        reservations = self.reserve(1, **options)
        assert len(reservations) == 1, f"wanted one reservation, got {len(reservations)}"
        return reservations[0]

    def reserve_new_job(self, *, lease_for: int = LEASE, worker: str = WORKER, **fields: Any) -> Reservation:
        """Enqueue a new job and reserve it."""
        job = self.enqueue_job(**fields)
        reservation = self.reserve_one(queues=[job.queue], lease_for=lease_for, worker=worker)
        assert reservation.job.id == job.id, f"wanted {job.id} reserved, got {reservation.job.id}"
        return reservation

    def extend(
        self, *leases: Lease, lease_for: int = LEASE, notes: Mapping[str, Note] = {}
    ) -> list[Lease | LeaseError]:
        """Extend now."""
        return self.store.do(Extend(leases=leases, lease_for=lease_for, notes=notes, now=self.now_or_none))

    def must_extend(self, lease: Lease, *, lease_for: int = LEASE, note: Note | None = None) -> Lease:
        """Extend one lease; fail the case if it is refused."""
        [answer] = self.extend(lease, lease_for=lease_for, notes={} if note is None else {lease.job_id: note})
        assert isinstance(answer, Lease), f"wanted the lease extended, got {answer!r}"
        return answer

    def settle(self, *settlements: Settlement) -> list[LeaseError | None]:
        """Settle now; return the answers."""
        return self.store.settle(settlements, now=self.now_or_none)

    def must_settle(self, *settlements: Settlement) -> None:
        """Settle now; fail the case if a settlement is refused."""
        answers = self.settle(*settlements)
        assert answers == [None] * len(settlements), f"wanted all accepted, got {answers!r}"

    def reap(self, queues: Sequence[str] | None = None, *, worker: str | None = None, limit: int = REAP_LIMIT) -> int:
        """Reap now."""
        return self.store.do(Reap(queues=queues, worker=worker, limit=limit, now=self.now_or_none)).count

    def report_outage(self, *leases: Lease) -> list[bool]:
        """Report leases that expired while the store was out of reach."""
        return self.store.do(Reap(leases=leases, now=self.now_or_none)).reported

    def expire_leases(self, *, length: int = LEASE) -> int:
        """Advance the clock by the length of a lease and reap; return how many leases ended."""
        self.advance(length)
        return self.reap()

    def cancel(self, *job_ids: str) -> list[State | None]:
        """Cancel now."""
        return self.store.do(Cancel(job_ids=job_ids, now=self.now_or_none))

    def requeue(self, *job_ids: str) -> list[bool]:
        """Requeue now."""
        return self.store.do(Requeue(job_ids=job_ids, now=self.now_or_none))

    def purge(self, *job_ids: str) -> list[bool]:
        """Purge now."""
        return self.store.do(Purge(job_ids=job_ids, now=self.now_or_none))

    # Reading --------------------------------------------------------------------------------------------------------

    def get(self, job_id: str) -> JobRecord:
        """Return the job; fail the case if the store does not know it."""
        job = self.store.get(job_id)
        assert job is not None, f"wanted {job_id} to be known, got None"
        return job

    def inspect(self, job_id: str) -> Inspection:
        """Return the job with its lease; fail the case if the store does not know the job."""
        inspection = self.store.do(Inspect(job_ids=[job_id])).get(job_id)
        assert inspection is not None, f"wanted {job_id} to be known, got None"
        return inspection

    def state(self, job_id: str) -> State:
        """Return the state of the job."""
        return self.get(job_id).state

    def ledger(self) -> list[LedgerRow]:
        """Return every ledger row of the space, read page by page; empty if the driver has no ledger."""
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
    def assert_unchanged(self) -> Iterator[None]:
        """Assert that the block changes no job, lease, note or ledger row of the space."""
        before = self._snapshot()
        yield
        after = self._snapshot()
        for name, value in before.items():
            assert after.get(name) == value, f"wanted {name} unchanged: {value!r}, got {after.get(name)!r}"
        assert len(after) == len(before), f"wanted nothing new, got {sorted(set(after) - set(before))}"

    def _snapshot(self) -> dict[str, object]:
        ids = self._job_ids
        if self._offers(Feature.JOBS):
            ids = [job.id for job in self.store.find(limit=1000)]
        return {"the ledger": self.ledger(), **self.store.do(Inspect(job_ids=ids))}

    # Concurrency ----------------------------------------------------------------------------------------------------

    def run_concurrently(self, *calls: Callable[[], T]) -> list[T]:
        """Run each call in its own thread, all started at the same moment; return the results or raise the error."""
        barrier = threading.Barrier(len(calls))

        def run(call: Callable[[], T]) -> T:
            barrier.wait(timeout=30)
            return call()

        with ThreadPoolExecutor(len(calls)) as pool:
            return [future.result() for future in [pool.submit(run, call) for call in calls]]

    def _offers(self, feature: Feature) -> bool:
        return self.capabilities.has(feature)

    def _close_later(self, store: Store) -> Store:
        self._opened.append(store)
        return store


class UrlHarness(Harness):
    """The harness for any store that ``holdfast.connect`` opens."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def open(self, *, space: str, caller_clock: bool) -> Store:
        """Open another connection to the URL."""
        return connect(self.url or "", space=space, caller_clock=caller_clock)
