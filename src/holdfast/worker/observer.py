"""What a worker reports while it runs: the one source of its log, its metrics and its health."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from holdfast.drivers.store import Store
from holdfast.errors import LeaseError, StoreError
from holdfast.log import events
from holdfast.log.failures import FailureLog
from holdfast.model.lease import Reservation
from holdfast.worker.catalogue import Catalogue
from holdfast.worker.expired_leases import ExpiredLease
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes.running import ExitedChild, Run
from holdfast.worker.status import Settled


class ObservedWorker(Protocol):
    """What an observer may read of its worker, in any thread."""

    driver: Store
    options: WorkerOptions
    catalogue: Catalogue
    name: str
    queues: list[str]

    @property
    def held(self) -> int:
        """How many jobs the worker has reserved and not yet settled."""

    @property
    def running(self) -> int:
        """About how many jobs its child processes are executing."""

    @property
    def stop_reason(self) -> str:
        """Who stopped the worker: the name of a signal, or the caller. Empty if nobody did."""


class WorkerObserver:
    """Gets the reports of a worker. Each method does nothing here; a subclass has those that it needs.

    The worker calls the methods in its own threads, at most one call per batch of jobs. They must return quickly. An
    exception is logged, and changes nothing for the worker.
    """

    def attached(self, worker: ObservedWorker) -> None:
        """The worker will report to this observer. Called once, before every other report."""

    def started(self, worker: str, queues: Sequence[str]) -> None:
        """The worker is about to reserve its first jobs."""

    def looped(self, *, full: bool) -> None:
        """The worker's loop has come round. ``full``: it holds all the jobs that it may, so it does not reserve."""

    def reserved(self, reservations: Sequence[Reservation], seconds: float) -> None:
        """A reserve has returned these jobs, maybe none, after so many seconds."""

    def settled(self, settled: Sequence[Settled]) -> None:
        """These attempts have ended, and the store has answered their settlements."""

    def extended(self, leases: int, late_seconds: float) -> None:
        """A heartbeat has extended so many leases; it began so many seconds after it was due.

        After a heartbeat that failed, there may be no lease left.
        """

    def lease_lost(self, run: Run, error: LeaseError | None) -> None:
        """The attempt is interrupted: a heartbeat was refused, or (None) the store did not answer one in time."""

    def reaped(self, leases: int, expired: Sequence[ExpiredLease]) -> None:
        """The worker has ended so many expired leases, in a reserve or in its maintenance.

        ``expired`` describes all of them, or none if the store cannot tell.
        """

    def store_failed(self, task: str, error: StoreError) -> None:
        """A call to the store failed; the worker tries again. ``task`` is the verb, such as ``reserve``."""

    def child_exited(self, child: ExitedChild) -> None:
        """A child process has exited, and will be replaced. Not called while the worker stops."""

    def stopping(self) -> None:
        """The worker was asked to stop: it reserves no more, and lets running jobs end."""

    def stopped(self, worker: str, statuses: Mapping[str, int]) -> None:
        """The worker has ended, after so many attempts of each status."""


class Observers(WorkerObserver):
    """Passes every report to several observers. An exception of one of them reaches no other."""

    def __init__(self, observers: Sequence[WorkerObserver]) -> None:
        self._observers = tuple(observers)
        self._failures = tuple(FailureLog(events.OBSERVER_FAILED, observer=type(each).__name__) for each in observers)

    def __bool__(self) -> bool:
        return bool(self._observers)

    def attached(self, worker: ObservedWorker) -> None:
        """Tell each observer which worker it observes."""
        self._report(lambda each: each.attached(worker))

    def started(self, worker: str, queues: Sequence[str]) -> None:
        """Tell each observer that the worker is about to reserve its first jobs."""
        self._report(lambda each: each.started(worker, queues))

    def looped(self, *, full: bool) -> None:
        """Tell each observer that the worker's loop has come round."""
        self._report(lambda each: each.looped(full=full))

    def reserved(self, reservations: Sequence[Reservation], seconds: float) -> None:
        """Give each observer the jobs of a reserve, maybe none."""
        self._report(lambda each: each.reserved(reservations, seconds))

    def settled(self, settled: Sequence[Settled]) -> None:
        """Give each observer the attempts that have ended."""
        self._report(lambda each: each.settled(settled))

    def extended(self, leases: int, late_seconds: float) -> None:
        """Tell each observer that a heartbeat has extended leases."""
        self._report(lambda each: each.extended(leases, late_seconds))

    def lease_lost(self, run: Run, error: LeaseError | None) -> None:
        """Tell each observer that an attempt has lost its lease."""
        self._report(lambda each: each.lease_lost(run, error))

    def reaped(self, leases: int, expired: Sequence[ExpiredLease]) -> None:
        """Tell each observer that expired leases were ended."""
        self._report(lambda each: each.reaped(leases, expired))

    def store_failed(self, task: str, error: StoreError) -> None:
        """Tell each observer that a call to the store failed."""
        self._report(lambda each: each.store_failed(task, error))

    def child_exited(self, child: ExitedChild) -> None:
        """Tell each observer that a child process has exited."""
        self._report(lambda each: each.child_exited(child))

    def stopping(self) -> None:
        """Tell each observer that the worker was asked to stop."""
        self._report(lambda each: each.stopping())

    def stopped(self, worker: str, statuses: Mapping[str, int]) -> None:
        """Tell each observer that the worker has ended."""
        self._report(lambda each: each.stopped(worker, statuses))

    def _report(self, report: Callable[[WorkerObserver], None]) -> None:
        for observer, failures in zip(self._observers, self._failures, strict=True):
            try:
                report(observer)
            except Exception as error:  # noqa: BLE001 - the worker's jobs go on, whatever an observer does
                failures.add(error)
