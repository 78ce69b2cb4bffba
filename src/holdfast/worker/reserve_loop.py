"""The loop of a running worker: reserve jobs, verify and admit them, and submit them to the child processes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.clock import SECOND, boot_time, from_timedelta, monotonic
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.store import Store
from holdfast.errors import StoreError, StoreUnavailable
from holdfast.model import bounds
from holdfast.model.lease import Reservation
from holdfast.worker.attempt import may_share_call
from holdfast.worker.catalogue import Catalogue
from holdfast.worker.guard import Guard
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.held_jobs import HeldJobs
from holdfast.worker.job_source import JobSource, StoreJobSource
from holdfast.worker.limit_proposals import ProposedLimits
from holdfast.worker.maintenance import Maintenance
from holdfast.worker.observer import Observers
from holdfast.worker.options import WorkerOptions
from holdfast.worker.outcome import NOT_STARTED, Interrupted
from holdfast.worker.processes import dispatch
from holdfast.worker.processes.pool import ChildPool
from holdfast.worker.processes.running import Run
from holdfast.worker.settler import Settler
from holdfast.worker.shutdown import Shutdown
from holdfast.worker.store_backoff import StoreBackoff
from holdfast.worker.store_silence import StoreSilence
from holdfast.worker.timing import WorkerTiming
from holdfast.worker.type_holds import TypeHolds
from holdfast.worker.verification import Verification

POLL_SECONDS = 0.25  # an idle worker reserves again after this time, even if the store sends no hint
DRAIN_POLL_SECONDS = (
    0.02  # with until_drained: the first pause, doubled up to POLL_SECONDS while other workers run jobs
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveLoop:
    """Reserves for one ``Worker.run``. The fields are the parts of the worker that it uses."""

    driver: Store
    catalogue: Catalogue
    options: WorkerOptions
    source: JobSource
    pool: ChildPool
    heartbeat: Heartbeat
    settler: Settler
    guard: Guard
    verification: Verification | None
    type_holds: TypeHolds
    held_jobs: HeldJobs
    proposed_limits: ProposedLimits
    observers: Observers
    shutdown: Shutdown
    silence: StoreSilence
    timing: WorkerTiming
    _backoff: StoreBackoff = field(default_factory=StoreBackoff, init=False)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), init=False)

    def run(self) -> None:
        """Reserve and submit jobs until the worker is stopped, or has no more to do."""
        maintenance = Maintenance(
            self.driver,
            keep_ended=self.options.keep_ended,
            keep_ledger=self.options.keep_ledger,
            keep_dead=self.options.keep_dead,
            queues=self.options.queues or (),
            on_reaped=lambda _space, leases, expired: self.observers.reaped(leases, expired),
            timing=self.timing.maintenance,
        )
        try:
            self._reserve_until_stopped(maintenance)
        finally:
            maintenance.report_expired(self.driver)  # of the last reserve

    def _reserve_until_stopped(self, maintenance: Maintenance) -> None:
        drain_poll = DRAIN_POLL_SECONDS
        is_full = False
        while not self.shutdown.is_requested:
            self.observers.looped(full=is_full)
            self.silence.answered()
            try:
                self.proposed_limits.store_once()
                maintenance.run_due()
                self.release_unstarted(waited_seconds=self.timing.release_seconds)
                if not self.settler.wait_for_capacity(POLL_SECONDS):
                    continue
                self.settler.report_outages()
                if self.verification is not None and (pause := self.verification.pause_left()):
                    self.shutdown.pause(min(pause, POLL_SECONDS))
                    continue
                limit = self._limit()
                is_full = limit <= 0
                settled_batches = self.settler.settled_batches
                reserved = self._reserve(limit) if limit > 0 else 0
                if self._has_reserved_max_jobs():
                    return
                if limit <= 0:
                    self._wait_for_end(POLL_SECONDS)
                elif self._waits_for_turns(is_short=reserved < limit):
                    self.settler.wait_for_batch(settled_batches, dispatch.SOON_SECONDS)
                elif reserved:
                    drain_poll = DRAIN_POLL_SECONDS
                elif self.options.until_drained and self._is_drained(settled_batches):
                    return
                else:
                    drain_poll = self._wait_for_jobs(drain_poll)
            except StoreError as error:
                self.observers.store_failed("reserve", error)
                self.shutdown.pause(self._backoff.failed())

    def report_silence(self, polled_seconds: float) -> None:
        """Report a store that has not answered for a while. Called by another thread, every ``polled_seconds``.

        A source of the caller may wait for its own jobs as long as it likes.
        """
        silent = self.silence.poll(polled_seconds)
        if silent is not None and isinstance(self.source, StoreJobSource):
            self.observers.store_failed("reserve", StoreUnavailable(f"no answer for {silent:.0f} s"))

    def release_unstarted(self, *, waited_seconds: float = 0.0) -> None:
        """Release the jobs that were not sent to a child yet."""
        runs = self.pool.take_back(waited_seconds=waited_seconds)
        if runs:
            self.settler.add([(run, Interrupted(reason=NOT_STARTED)) for run in runs], more_soon=False)

    def _limit(self) -> int:
        """Return how many jobs the next reserve may take."""
        if self.shutdown.is_holding:
            return 0
        useful, free_places = self.pool.reserve_limit(), self.pool.free_places()
        if not self.driver.capabilities.has(Feature.NOTES):  # the store does not know which jobs have begun (L7)
            useful = min(useful, free_places)
        limit = self.held_jobs.limit(useful, free_places)
        max_jobs = self.options.max_jobs
        if max_jobs is not None:
            limit = min(limit, max_jobs - self.held_jobs.reserved)
        return min(limit, bounds.MAX_BATCH_ITEMS)

    def _reserve(self, limit: int) -> int:
        """Reserve jobs, submit those that may run to the pool, and settle the others; return how many were reserved."""
        began, lease_seconds = boot_time(), self.options.lease_for / SECOND
        demand = self.held_jobs.demand(limit, self.pool.free_places(), short_jobs=self.pool.runs_short_jobs())
        asked_at, holds = monotonic(), self.type_holds.holds
        reservations = self.source.reserve(demand)
        self._backoff.answered()
        self.observers.reserved(reservations, monotonic() - asked_at)
        self.held_jobs.add(reservations, demand.isolation)
        if self.type_holds.has_breakers:
            self.type_holds.reserved(reservations)
        runs = [self._make_run(reservation) for reservation in reservations]
        for run in runs:
            run.set_lease(began, lease_seconds)
        self.heartbeat.add(runs)
        if self.verification is not None:
            runs, rejected = self.verification.admit(runs)
            if rejected:
                self.settler.add(rejected, more_soon=False)
        admitted, refused = self.guard.admit(runs)
        if refused:
            self.settler.add(refused, more_soon=False)
        self.pool.submit(admitted)
        for queue, type_ in self.type_holds.held_after(holds):  # the store may have answered before it was held
            self.pool.give_back(queue, type_)
        return len(reservations)

    def _make_run(self, reservation: Reservation) -> Run:
        run, job = Run(next(self._numbers), reservation), reservation.job
        handler = self.catalogue.get(job.type)
        cpu = self.options.limits.cpu
        if job.timeout is not None:
            run.timeout = job.timeout
        if handler is not None:
            if job.timeout is None and handler.timeout is not None:
                run.timeout = from_timedelta(handler.timeout)
            may_share = may_share_call(job.attempts, job.max_attempts, job.crashes) and not reservation.isolated
            if handler.chunk is not None and may_share:
                run.chunk = handler.chunk
            cpu = handler.cpu or cpu
        if cpu is not None:
            run.cpu_limit = from_timedelta(cpu)
        return run

    def _has_reserved_max_jobs(self) -> bool:
        max_jobs = self.options.max_jobs
        return max_jobs is not None and self.held_jobs.reserved >= max_jobs

    def _waits_for_turns(self, *, is_short: bool) -> bool:
        """Whether the next settlement, which is expected soon, makes jobs ready that the store did not have now.

        ``is_short``: it had fewer than the worker asked for. Then jobs of domains are settled as soon as they have
        ended. In large batches, the children would wait for the next turns, and the store for the children.
        """
        waits = is_short and self.held_jobs.may_block_domains
        self.settler.hurry(hurried=waits)
        return waits and self._settles_soon()

    def _settles_soon(self) -> bool:
        """Whether a run is expected to end soon, or all have ended."""
        return self.pool.ends_soon() or not self.pool.busy()

    def _wait_for_jobs(self, drain_poll: float) -> float:
        """Wait until jobs may be available; return how long to wait the next time with ``until_drained``."""
        if self.held_jobs.count and self._settles_soon():  # an isolated job may wait for the held ones
            self._wait_for_end(dispatch.SOON_SECONDS)
            return drain_poll
        self.source.wait(drain_poll if self.options.until_drained else POLL_SECONDS)
        return min(2 * drain_poll, POLL_SECONDS)

    def _wait_for_end(self, seconds: float) -> None:
        """Wait until a run ends; once all have ended, until they are settled."""
        with self.pool.changed:
            if self.pool.busy():
                self.pool.changed.wait(seconds)
                return
        self.settler.wait_until_idle(seconds)

    def _is_drained(self, settled_batches: int) -> bool:
        """Whether nothing runs here, and the source has no open job. ``settled_batches`` is from before the reserve."""
        deadline = monotonic() + dispatch.SOON_SECONDS  # then the caller looks for a stop, and for jobs that are due
        while self.pool.ends_soon() and (left := deadline - monotonic()) > 0:
            with self.pool.changed:
                self.pool.changed.wait(left)
        if self.pool.busy() or not self.settler.wait_until_idle(dispatch.SOON_SECONDS):
            return False
        if not self.driver.capabilities.has(Feature.JOBS) and self.settler.settled_batches != settled_batches:
            return False  # a job that runs again came too late for the reserve, and the store counts no open jobs
        return self.source.is_drained()
