"""What callers see: a ``Store`` in front of an engine. It refuses what is not allowed.

``do`` takes every request. The ten verbs that users call most say the same in a line each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Self, TypeVar, cast

from msgspec.structs import replace

from holdfast.drivers import requests as r
from holdfast.drivers.answers import (
    Page,
    QueueCounts,
    Reaped,
    Reserved,
)
from holdfast.drivers.capabilities import Capabilities, Feature
from holdfast.drivers.engine import Door
from holdfast.errors import CallerClockRefused, LeaseError, Unsupported
from holdfast.model import bounds
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued, Lease, Reservation
from holdfast.model.ledger import LedgerRow
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
        if not isinstance(request, r.Enqueue):
            self._refuse_if_joined()
        elif self._connection is not None:
            request = cast("r.Request[A]", replace(request, connection=self._connection))
        request.check(self.engine.can)
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

    def joined(self, connection: object) -> Store:
        """Return a view that enqueues in the transaction of the caller's connection."""
        self._refuse_if_joined()
        self.capabilities.require(Feature.JOINED)
        return type(self)(self.engine, connection=connection)

    def take_expired(self) -> list[LedgerRow]:
        """Return the ledger rows of the leases that the requests of this object have ended, each once."""
        rows: list[LedgerRow] = []
        while self._ended:
            try:
                rows += self._ended.popleft()
            except IndexError:  # another thread has taken the last one
                break
        return rows

    # What users call, in a line each.

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int | None = None) -> list[Enqueued]:
        """Store new jobs."""
        return self.do(r.Enqueue(jobs=jobs, now=now)).answers

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
        """Lease due jobs."""
        request = r.Reserve(queues=queues, limit=limit, lease_for=lease_for, worker=worker, types=types, now=now)
        return self.do(request).reservations

    def extend(self, leases: Sequence[Lease], *, lease_for: int, now: int | None = None) -> list[Lease | LeaseError]:
        """Extend leases."""
        return self.do(r.Extend(leases=leases, lease_for=lease_for, now=now))

    def settle(self, settlements: Sequence[Settlement], *, now: int | None = None) -> list[LeaseError | None]:
        """End leases."""
        return self.do(r.Settle(settlements=settlements, now=now))

    def reap(self, queues: Sequence[str] | None = None, *, now: int | None = None) -> int:
        """End expired leases; return how many."""
        return self.do(r.Reap(queues=queues, now=now)).count

    def get(self, job_id: str) -> JobRecord | None:
        """Return a job in any state; None if the space has no job with this id."""
        found = self.do(r.Inspect(job_ids=[job_id])).get(job_id)
        return None if found is None else found.job

    def find(self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None) -> Page[JobRecord]:
        """Return a page of jobs."""
        return self.do(r.Find(where=where or JobFilter(), limit=limit, after=after))

    def counts(self, queues: Sequence[str] | None = None, *, now: int | None = None) -> list[QueueCounts]:
        """Count jobs."""
        return self.do(r.Counts(queues=queues, now=now))

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return a page of the ledger."""
        return self.do(r.Ledger(after=after, limit=limit))

    def wait(self, queues: Sequence[str], *, timeout: float) -> None:
        """Wait until a job may be due: at once if one is due that nobody can reserve now, see ``requests.Wait``."""
        self.do(r.Wait(queues=queues, timeout=timeout))
