"""Where a worker gets its jobs from.

A ``JobSource`` decides which leased jobs the worker gets next, and nothing else. Heartbeats, settlements and
maintenance always go to the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import AnyOpen, Reserve, Wait
from holdfast.drivers.store import Store
from holdfast.model.isolation import Isolation
from holdfast.model.lease import Reservation
from holdfast.worker.blocked_domains import has_only_blocked


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a worker can take now.

    ``short_jobs`` is its estimate that it finishes at least 500 jobs within 100 ms. It is False until the first job has
    ended.
    """

    limit: int  # jobs that the worker can start or buffer
    max_bytes: int | None = None  # of their payloads
    prefetch: bool = False  # some of them begin later, when others have ended
    isolation: Isolation = Isolation.ALONE
    short_jobs: bool = False


class JobSource(Protocol):
    """Jobs for one worker. ``Worker.run`` calls all methods in one thread of its own, and none after it has returned.

    A method that raises ``StoreError`` is called again after a pause; the source must not lose a job by it.
    """

    def reserve(self, demand: Demand) -> list[Reservation]:
        """Return jobs that are leased to this worker; an empty list if there are none now.

        Returns at most ``demand.limit`` jobs. Only if jobs are short it may return more, up to about a second of work,
        because one large batch costs less than many small ones. An isolated job is returned alone, and only as
        ``demand.isolation`` allows.
        """
        ...

    def wait(self, timeout: float) -> None:
        """Return when jobs may be available, at the latest after ``timeout`` seconds. A hint, not a guarantee."""
        ...

    def is_drained(self) -> bool:
        """Whether the source has no open job left: none is ready, scheduled or running, in this worker or elsewhere.

        Jobs of domains that are halted, or that wait for a missing offset for ever, do not count.
        """
        ...


class StoreJobSource:
    """The default source: due jobs of some queues and types of a store."""

    def __init__(
        self, driver: Store, queues: Sequence[str], types: Collection[str], *, lease_for: int, worker: str
    ) -> None:
        self._driver = driver
        self._queues = queues
        self._types = types
        self._can = driver.capabilities
        self._lease_for = lease_for
        self._worker = worker
        self._mark: tuple[int, ...] = ()

    def reserve(self, demand: Demand) -> list[Reservation]:
        """Reserve due jobs of the store."""
        request = Reserve(
            queues=self._queues,
            limit=demand.limit,
            lease_for=self._lease_for,
            worker=self._worker,
            types=self._types if self._can.has(Feature.TYPES) else None,
            max_bytes=demand.max_bytes,
            isolation=demand.isolation,
            prefetch=demand.prefetch and self._can.has(Feature.NOTES),
        )
        reserved = self._driver.do(request)
        self._mark = reserved.mark
        return reserved.reservations

    def wait(self, timeout: float) -> None:
        """Wait until a job of the queues may be due that the last reserve has not seen."""
        self._driver.do(Wait(queues=self._queues, timeout=timeout, since=self._mark))

    def is_drained(self) -> bool:
        """Whether the store has no open job of these queues and types, or only such as a stopped domain blocks.

        A store that counts no jobs is drained when a reserve finds none.
        """
        if not self._can.has(Feature.JOBS):
            return True
        has_open = self._driver.do(AnyOpen(queues=self._queues, types=self._types))
        return not has_open or has_only_blocked(self._driver, self._queues)
