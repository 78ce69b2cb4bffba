"""Where a worker gets its jobs from.

A ``JobSource`` decides which leased jobs the worker gets next, and nothing else. Heartbeats, settlements and
maintenance always go to the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from holdfast.drivers.contract import Store
from holdfast.model.lease import Reservation


class JobSource(Protocol):
    """Jobs for one worker. ``Worker.run`` calls all methods in one thread of its own, and none after it has returned.

    A method that raises ``StoreError`` is called again after a pause; the source must not lose a job by it.
    """

    def reserve(self, limit: int, *, short_jobs: bool) -> list[Reservation]:
        """Return jobs that are leased to this worker; an empty list if there are none now.

        ``limit`` is the number of jobs that the worker can start or buffer now. ``short_jobs`` is the worker's estimate
        that it finishes at least 500 jobs within 100 ms: then the source may return more than ``limit`` jobs, up to
        about a second of work, because one large batch costs less than many small ones. Without ``short_jobs`` it
        returns at most ``limit`` jobs. The estimate is False until the first job has ended.
        """
        ...

    def wait(self, timeout: float) -> None:
        """Return when jobs may be available, at the latest after ``timeout`` seconds. A hint, not a guarantee."""
        ...

    def is_drained(self) -> bool:
        """Whether the source has no open job left: none is ready, scheduled or running, in this worker or elsewhere."""
        ...


class StoreJobSource:
    """The default source: due jobs of some queues and types of a store."""

    def __init__(
        self, driver: Store, queues: Sequence[str], types: Collection[str], *, lease_for: int, worker: str
    ) -> None:
        self._driver = driver
        self._queues = queues
        self._types = types
        self._lease_for = lease_for
        self._worker = worker

    def reserve(self, limit: int, *, short_jobs: bool = False) -> list[Reservation]:  # noqa: ARG002 - never more than limit
        """See ``JobSource.reserve``."""
        return self._driver.reserve(
            self._queues, limit=limit, lease_for=self._lease_for, worker=self._worker, types=self._types
        )

    def wait(self, timeout: float) -> None:
        """See ``JobSource.wait``."""
        self._driver.wait(self._queues, timeout=timeout)

    def is_drained(self) -> bool:
        """See ``JobSource.is_drained``."""
        return not self._driver.any_open(self._queues, self._types)
