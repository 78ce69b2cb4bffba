"""The worker's loop: reserve jobs, extend their leases, run them in child processes, settle them, stop without loss."""

from __future__ import annotations

import itertools
import math
import os
import random
import secrets
import signal
import socket
import threading
import types
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Unpack

from holdfast.clock import SECOND, boot_time, from_timedelta, monotonic
from holdfast.drivers.contract import CancelWait, Feature, Store
from holdfast.errors import InvalidInput, LeaseError, StoreError, Unsupported
from holdfast.model import bounds
from holdfast.model.lease import Lease, Reservation
from holdfast.model.request import DEFAULT_QUEUE
from holdfast.model.settlement import Settlement
from holdfast.wire.job_message import job_message
from holdfast.wire.signing import Signer
from holdfast.worker.attempt import attempt, may_share_call
from holdfast.worker.background_call import BackgroundCall
from holdfast.worker.cancel_watch import CancelWatch
from holdfast.worker.catalogue import Catalogue, Handler, HandlerKeywords, make_handler
from holdfast.worker.decide import ack, decide
from holdfast.worker.event_loop import LocalLoop
from holdfast.worker.guard import Guard
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.held_jobs import HeldJobs
from holdfast.worker.interpreter import gc_frozen, tuned_interpreter
from holdfast.worker.job_log import set_worker_name
from holdfast.worker.job_source import Demand, JobSource, StoreJobSource
from holdfast.worker.limit_proposals import propose_limits
from holdfast.worker.limits import RecycleLimits
from holdfast.worker.maintenance import Maintenance
from holdfast.worker.observer import Observers, WorkerObserver
from holdfast.worker.options import WorkerOptions
from holdfast.worker.outcome import Interrupted, Outcome, RetryRequested, Succeeded
from holdfast.worker.processes import dispatch
from holdfast.worker.processes.pool import ChildPool
from holdfast.worker.processes.running import Run, StopReason
from holdfast.worker.resources import Resources
from holdfast.worker.retry_policy import policy_of
from holdfast.worker.settler import Settler, send_last_notes
from holdfast.worker.status import Settled, Tally, WorkerResult, settled_statuses, status_of
from holdfast.worker.type_holds import TypeHolds
from holdfast.worker.verification import Verification

POLL_SECONDS = 0.25  # an idle worker reserves again after this time, even if the store sends no hint
DRAIN_POLL_SECONDS = (
    0.02  # with until_drained: the first pause, doubled up to POLL_SECONDS while other workers run jobs
)
STOP_SECONDS = 10.0  # the longest wait of a worker that ends for a store that does not answer
MIN_SETTLE_SECONDS = 2.0  # that a stopped worker waits for its last settlements, also after drain and grace
RELEASE_AFTER_SECONDS = 1.0  # a reserved job that no child could start is released for other workers


class Worker:
    """Runs the jobs of some queues with its handlers. ``run`` may be called in any thread."""

    def __init__(
        self,
        driver: Store,
        options: WorkerOptions | None = None,
        *,
        catalogue: Catalogue | None = None,
        source: JobSource | None = None,
        observers: Sequence[WorkerObserver] = (),
        signer: Signer | None = None,
    ) -> None:
        """``run`` reserves jobs from ``source`` instead of the store's queues. Everything else uses ``driver``.

        With a ``signer``, no handler gets a job whose signature is wrong: see ``verification``.
        """
        self.driver = driver
        self.options = options or WorkerOptions()
        self._run_options = self.options  # with the arguments of ``run``
        self.catalogue = catalogue or Catalogue()
        self.name = self.options.name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self.queues = list(self.options.queues or (DEFAULT_QUEUE,))
        self.tally = Tally()
        self._lease_for = self.options.lease_for
        self._source = source
        self._observers = Observers(observers)
        self._pool: ChildPool | None = None  # created by ``prepare``
        self._running_pool: ChildPool | None = None  # of ``run``
        self._guard: Guard | None = None  # of ``run``, created by ``prepare``
        self._is_holding = threading.Event()
        self._stop = threading.Event()
        self._stop_at_once = threading.Event()
        self._stop_deadline = math.inf  # monotonic seconds: when the drain and the grace time of a stop end
        self._numbers = itertools.count(1)
        self._held_jobs = HeldJobs()
        self._random = random.Random()  # noqa: S311 - jitter
        self._resources = Resources(self.catalogue.resources)  # of ``process_once``, like the event loop
        self._loop = LocalLoop(self._resources.aclose)
        self._verification = None if signer is None else Verification(signer, worker=self.name)
        self._has_proposed = False
        self._type_holds = TypeHolds(
            driver, self.catalogue, self.options.breaker, lease_for=self._lease_for, worker=self.name
        )
        self._observers.attached(self)

    def register(
        self,
        type_: str,
        function: Callable[..., Any],
        **keywords: Unpack[HandlerKeywords],
    ) -> Handler:
        """Run jobs of this type with ``fn(payload)``, ``fn(payload, ctx)``, or a class with ``handle(ctx)``.

        With ``chunk`` the function is ``fn(payloads)`` or ``fn(payloads, contexts)``, for at most ``chunk`` jobs at a
        time. With ``strict_result``, a result that cannot be stored makes a dead letter; otherwise the job is done
        without its result. The other keywords are those of ``app.handler``.
        """
        return self.catalogue.add(make_handler(type_, function, **keywords))

    def stop(self, *, at_once: bool = False) -> None:
        """Reserve no more, and let running jobs end within the drain time; with ``at_once``, interrupt them now."""
        self._stop.set()
        if at_once:
            self._stop_at_once.set()

    def hold(self) -> None:
        """Reserve no more, but keep running the reserved jobs without a time limit, until ``stop``."""
        self._is_holding.set()

    def close(self) -> None:
        """Close the resources of ``process_once``. ``run`` closes its own."""
        self._loop.close()
        self._resources.close()

    @property
    def is_stopping(self) -> bool:
        """Whether ``stop`` was called, or a signal has stopped ``run``."""
        return self._stop.is_set()

    @property
    def held(self) -> int:
        """How many jobs ``run`` has reserved and not yet settled."""
        return self._held_jobs.count

    @property
    def running(self) -> int:
        """About how many jobs the child processes of ``run`` are executing now."""
        pool = self._running_pool
        return 0 if pool is None else pool.running()

    # One job in this process ------------------------------------------------------------------------------------

    def process_once(self, queue: str | None = None) -> WorkerResult:
        """Run one due job in this process. For tests and scripts: a handler that hangs cannot be interrupted."""
        self.catalogue.check_chunks(concurrency=1)
        self._propose_limits()
        guard = self._make_guard()
        reservations = self._store_source(self.queues if queue is None else [queue]).reserve(Demand(limit=1))
        if not reservations:
            return WorkerResult(status="empty")
        [reservation] = reservations
        run = Run(next(self._numbers), reservation)
        heartbeat = Heartbeat(
            self.driver,
            lease_for=self._lease_for,
            on_lost=lambda *_: None,
            on_cancel=lambda _: None,
            extend_locks=guard.extend,
        )
        heartbeat.start()
        heartbeat.add([run])
        set_worker_name(self.name)
        try:
            outcome = self._refusal_of(run, guard) or self._run_here(run)
        finally:
            heartbeat.stop()
        [lease] = heartbeat.remove([run])
        send_last_notes(self.driver, [run], [lease], self._lease_for)
        settlements = guard.add_writes([run], [self._settlement_of(run, outcome, lease)])
        [refused] = guard.settle([run], settlements)
        [settlement] = settlements
        if self._type_holds.is_active:
            self._type_holds.settled([run], settlements, [refused])
        return WorkerResult(
            status=status_of(reservation.job, settlement, refused),
            job_id=reservation.job.id,
            error=getattr(settlement, "error", "") if refused is None else str(refused),
        )

    def _refusal_of(self, run: Run, guard: Guard) -> Outcome | None:
        """Return why a job is not run: its signature is bad, or a guard refuses it."""
        rejected = None if self._verification is None else self._verification.check(run.reservation.job)
        if rejected is not None:
            return rejected
        _, refusals = guard.admit([run])
        return refusals[0][1] if refusals else None

    def _run_here(self, run: Run) -> Outcome:
        began = monotonic()
        try:
            return attempt(
                self.catalogue,
                self._resources,
                job_message(run.reservation),
                run.add_note,
                run_coroutine=self._run_coroutine,
                add_output=run.set_output,
            )
        finally:
            run.seconds = monotonic() - began

    def _make_guard(self) -> Guard:
        return Guard(self.driver, self.catalogue, self.options, self._observers)

    def _run_coroutine(self, coroutine: Coroutine[Any, Any, object]) -> object:
        """Run an async handler. The event loop stays open while async resources are on it."""
        try:
            return self._loop.run(coroutine)
        finally:
            if not self._resources.is_on_loop:
                self._loop.close()

    # The loop ---------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Start the child processes that ``run`` will use. Call it in the main thread if ``run`` is called in another.

        A process should be forked while it has no other threads.
        """
        if not self.catalogue.types:
            raise InvalidInput("handlers", wanted="at least one registered handler", got="none")
        self.catalogue.check_chunks(concurrency=self.options.concurrency)
        gap = self.driver.capabilities.gaps.get(Feature.PROCESSES)
        if gap is not None:
            reason = (
                f"{gap}, but handlers run in child processes: jobs that they enqueue would be lost; use process_once"
            )
            raise Unsupported(self.driver.capabilities.driver, "a worker", reason)
        self._guard = self._make_guard()
        self._pool = ChildPool(
            self.catalogue,
            processes=self.options.processes,
            concurrency=self.options.concurrency,
            grace_seconds=self.options.grace.total_seconds(),
            limits=self.options.limits,
            recycle=RecycleLimits(jobs=self.options.recycle_after, memory=self.options.recycle_above),
            keep_processes=self.options.keep_processes,
            worker=self.name,
        )

    def run(
        self,
        stop: threading.Event | None = None,
        *,
        until_drained: bool | None = None,
        max_jobs: int | None = None,
    ) -> Counter[str]:
        """Run jobs until stopped, drained, or after ``max_jobs`` jobs; return the number of attempts per status.

        ``until_drained`` and ``max_jobs`` replace the options of the same names; None keeps them. Setting the event
        ``stop`` has the effect of calling ``stop()``.
        """
        self._run_options = replace(
            self.options,
            until_drained=self.options.until_drained if until_drained is None else until_drained,
            max_jobs=self.options.max_jobs if max_jobs is None else max_jobs,
        )
        with self._signals(), gc_frozen():
            if self._pool is None:
                self.prepare()
            pool, self._pool = self._pool, None
            assert pool is not None
            self._running_pool = pool
            self._run(pool, stop or threading.Event())
        return Counter(self.tally.statuses)

    def _run(self, pool: ChildPool, stop: threading.Event) -> None:
        guard = self._guard
        assert guard is not None
        heartbeat = Heartbeat(
            self.driver,
            lease_for=self._lease_for,
            on_lost=lambda run, error: self._on_lost(pool, run, error),
            on_cancel=lambda run: pool.interrupt(run, StopReason.CANCEL),
            on_lock_lost=lambda run: pool.interrupt(run, StopReason.LOST),
            observer=self._observers,
            extend_locks=guard.extend,
        )
        settler = Settler(
            self.driver,
            heartbeat,
            lease_for=self._lease_for,
            settlement_of=self._settlement_of,
            add_writes=guard.add_writes,
            settle=guard.settle,
            on_settled=self._count_settled,
            observer=self._observers,
        )
        cancel_watch = CancelWatch(self.driver, heartbeat) if isinstance(self.driver, CancelWait) else None
        heartbeat.start()
        settler.start()
        if cancel_watch is not None:
            cancel_watch.start()
        pool.start(
            lambda ended, more_soon: settler.add(ended, more_soon=more_soon),
            on_lost=lambda run: self._observers.lease_lost(run, None),
            on_exit=self._observers.child_exited,
        )
        self._observers.started(self.name, self.queues)
        try:
            with tuned_interpreter():
                source = self._source or self._store_source(self.queues)
                # In another thread: this one has to handle signals, also while the store does not answer.
                reserving = BackgroundCall(
                    lambda: self._work(source, pool, heartbeat, settler, stop), name="holdfast-reserve"
                )
                while not reserving.wait(POLL_SECONDS) and not self._is_stopping(stop):
                    pass
                if self._is_stopping(stop):
                    self._observers.stopping()
                self._finish(pool, settler, stop, reserving)
        finally:
            pool.close()
            seconds_left = self._time_to_settle(stop)
            settler.stop(seconds_left)
            heartbeat.stop(seconds_left())
            if cancel_watch is not None:
                cancel_watch.stop(seconds_left())
            self._observers.stopped(self.name, self.tally.statuses)

    def _work(
        self, source: JobSource, pool: ChildPool, heartbeat: Heartbeat, settler: Settler, stop: threading.Event
    ) -> None:
        """Reserve and submit jobs until the worker is stopped, or has no more to do."""
        options = self._run_options
        maintenance = Maintenance(
            self.driver,
            keep_ended=options.keep_ended,
            keep_ledger=options.keep_ledger,
            on_reaped=self._observers.reaped,
        )
        drain_poll = DRAIN_POLL_SECONDS
        is_full = False
        while not self._is_stopping(stop):
            self._observers.looped(full=is_full)
            try:
                self._propose_limits()
                maintenance.run_due()
                self._release_unstarted(pool, settler, waited_seconds=RELEASE_AFTER_SECONDS)
                if not settler.wait_for_capacity(POLL_SECONDS):
                    continue
                settler.report_outages()
                if self._verification is not None and (pause := self._verification.pause_left()):
                    self._stop.wait(min(pause, POLL_SECONDS))
                    continue
                limit = self._reserve_limit(pool)
                is_full = limit <= 0
                reserved = self._reserve(source, pool, heartbeat, settler, limit) if limit > 0 else 0
                if self._has_reserved_max_jobs():
                    return
                if limit <= 0:
                    self._wait_for_end(pool, settler, POLL_SECONDS)
                elif reserved:
                    drain_poll = DRAIN_POLL_SECONDS
                else:
                    if options.until_drained and self._is_drained(source, pool, settler):
                        return
                    if self.held and (pool.ends_soon() or not pool.busy()):  # an isolated job may wait for them
                        self._wait_for_end(pool, settler, dispatch.SOON_SECONDS)
                        continue
                    source.wait(drain_poll if options.until_drained else POLL_SECONDS)
                    drain_poll = min(2 * drain_poll, POLL_SECONDS)
            except StoreError as error:
                self._observers.store_failed("reserve", error)
                self._stop.wait(POLL_SECONDS)

    def _propose_limits(self) -> None:
        """Propose the limits of the settings and of the handlers once, before the first reserve."""
        if not self._has_proposed:
            of_handlers = [handler.limits for handler in self.catalogue if handler.limits is not None]
            of_settings = {(one.queue, one.type) for one in self.options.queue_limits}
            others = [one for one in of_handlers if (one.queue, one.type) not in of_settings]
            propose_limits(self.driver, [*self.options.queue_limits, *others])
            self._has_proposed = True

    def _wait_for_end(self, pool: ChildPool, settler: Settler, seconds: float) -> None:
        """Wait until a run ends; once all have ended, until they are settled."""
        with pool.changed:
            if pool.busy():
                pool.changed.wait(seconds)
                return
        settler.wait_until_idle(seconds)

    def _is_stopping(self, stop: threading.Event) -> bool:
        return self._stop.is_set() or stop.is_set()

    def _release_unstarted(self, pool: ChildPool, settler: Settler, *, waited_seconds: float = 0.0) -> None:
        """Release the jobs that were not sent to a child yet."""
        runs = pool.take_back(waited_seconds=waited_seconds)
        if runs:
            settler.add([(run, Interrupted()) for run in runs], more_soon=False)

    def _store_source(self, queues: list[str]) -> StoreJobSource:
        return StoreJobSource(self.driver, queues, self.catalogue.types, lease_for=self._lease_for, worker=self.name)

    def _reserve_limit(self, pool: ChildPool) -> int:
        if self._is_holding.is_set():
            return 0
        limit = self._held_jobs.limit(pool.reserve_limit(), pool.free_places())
        max_jobs = self._run_options.max_jobs
        if max_jobs is not None:
            limit = min(limit, max_jobs - self._held_jobs.reserved)
        return min(limit, bounds.MAX_BATCH_ITEMS)

    def _reserve(self, source: JobSource, pool: ChildPool, heartbeat: Heartbeat, settler: Settler, limit: int) -> int:
        """Reserve jobs, submit those that may run to the pool, and settle the others; return how many were reserved."""
        began, lease_seconds = boot_time(), self._lease_for / SECOND
        demand = self._held_jobs.demand(limit, pool.free_places(), short_jobs=pool.runs_short_jobs())
        asked_at = monotonic()
        reservations = source.reserve(demand)
        self._observers.reserved(reservations, monotonic() - asked_at)
        self._held_jobs.add(reservations, demand.isolation)
        if self._type_holds.has_breakers:
            self._type_holds.reserved(reservations)
        runs = [self._make_run(reservation) for reservation in reservations]
        for run in runs:
            run.set_lease(began, lease_seconds)
        heartbeat.add(runs)
        if self._verification is not None:
            runs = self._verified(self._verification, runs, settler)
        assert self._guard is not None
        admitted, refused = self._guard.admit(runs)
        if refused:
            settler.add(refused, more_soon=False)
        pool.submit(admitted)
        return len(reservations)

    def _verified(self, verification: Verification, runs: list[Run], settler: Settler) -> list[Run]:
        """Return the runs that may begin, and settle the others."""
        checked = [(run, verification.check(run.reservation.job)) for run in runs]
        rejected = [(run, outcome) for run, outcome in checked if outcome is not None]
        if rejected:
            settler.add(rejected, more_soon=False)
        return [run for run, outcome in checked if outcome is None]

    def _make_run(self, reservation: Reservation) -> Run:
        run, job = Run(next(self._numbers), reservation), reservation.job
        handler = self.catalogue.get(job.type)
        cpu = self.options.limits.cpu
        if job.timeout is not None:
            run.timeout = job.timeout
        if handler is not None:
            if job.timeout is None and handler.timeout is not None:
                run.timeout = from_timedelta(handler.timeout)
            may_share = may_share_call(job.attempts, job.crashes) and not reservation.isolated
            if handler.chunk is not None and may_share:
                run.chunk = handler.chunk
            cpu = handler.cpu or cpu
        if cpu is not None:
            run.cpu_limit = from_timedelta(cpu)
        return run

    def _has_reserved_max_jobs(self) -> bool:
        max_jobs = self._run_options.max_jobs
        return max_jobs is not None and self._held_jobs.reserved >= max_jobs

    def _is_drained(self, source: JobSource, pool: ChildPool, settler: Settler) -> bool:
        """Whether nothing runs here, and the source has no open job."""
        deadline = monotonic() + dispatch.SOON_SECONDS  # then the caller looks for a stop, and for jobs that are due
        while pool.ends_soon() and (left := deadline - monotonic()) > 0:
            with pool.changed:
                pool.changed.wait(left)
        if pool.busy() or not settler.wait_until_idle(dispatch.SOON_SECONDS):
            return False
        return source.is_drained()

    def _finish(self, pool: ChildPool, settler: Settler, stop: threading.Event, reserving: BackgroundCall) -> None:
        """Wait for the running jobs; once the worker is stopped, only for the drain time, then interrupt them.

        A reserve that the store does not answer is left behind. The leases that it may still get expire.
        """
        while pool.busy() and not self._is_stopping(stop):
            with pool.changed:
                pool.changed.wait(POLL_SECONDS)
        stopped_at = monotonic()
        drain = self.options.drain
        deadline = None if drain is None else stopped_at + drain.total_seconds()
        if deadline is not None:
            self._stop_deadline = deadline + self.options.grace.total_seconds()
        while not self._stop_at_once.is_set():
            self._release_unstarted(pool, settler)
            left = POLL_SECONDS if deadline is None else min(POLL_SECONDS, deadline - monotonic())
            if left <= 0:
                break
            if pool.busy():
                with pool.changed:
                    pool.changed.wait(left)
            elif reserving.has_ended or monotonic() - stopped_at > STOP_SECONDS:
                break
            else:
                reserving.wait(left)
        if self._source is not None:  # the caller's code must not go on after ``run``
            reserving.wait()
        self._release_unstarted(pool, settler)
        pool.interrupt_all(StopReason.SHUTDOWN)

    def _time_to_settle(self, stop: threading.Event) -> Callable[[], float]:
        """Return a function that says how many seconds are left for the last settlements. All jobs have ended.

        A stop bounds them by drain and grace, also a stop that comes now; a second stop shortens them once more.
        """
        began = monotonic()

        def seconds_left() -> float:
            until = began + STOP_SECONDS
            if self._is_stopping(stop):
                drained_at = began if self._stop_at_once.is_set() else self._stop_deadline
                until = max(began + MIN_SETTLE_SECONDS, min(until, drained_at))
            return max(0.0, until - monotonic())

        return seconds_left

    # Ended attempts ---------------------------------------------------------------------------------------------

    def _settlement_of(self, run: Run, outcome: Outcome, lease: Lease) -> Settlement:
        if isinstance(outcome, Succeeded):  # the most frequent outcome needs no retry policy
            return ack(lease, outcome, run.started_at)
        if isinstance(outcome, RetryRequested) and outcome.pause_type and outcome.after is not None:
            self._type_holds.request_pause(run.reservation, outcome.after)
        job = run.reservation.job
        policy = policy_of(job, self.catalogue.get(job.type), self.options.retry_policy)
        return decide(job, lease, outcome, policy, random=self._random.random(), started_at=run.started_at)

    def _count_settled(
        self,
        runs: Sequence[Run],
        settlements: Sequence[Settlement],
        refusals: Sequence[LeaseError | StoreError | None],
    ) -> None:
        statuses = settled_statuses(runs, settlements, refusals)
        self.tally.count(statuses)
        self._held_jobs.remove([run.reservation for run in runs])
        if self._guard is not None:
            self._guard.forget(runs)
        if self._observers:
            self._observers.settled(list(map(Settled, runs, settlements, refusals, statuses)))
        if self._type_holds.is_active:
            self._type_holds.settled(runs, settlements, refusals)

    def _on_lost(self, pool: ChildPool, run: Run, error: LeaseError) -> None:
        self._observers.lease_lost(run, error)
        pool.interrupt(run, StopReason.LOST)

    # Signals ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first SIGTERM or SIGINT stops the worker, the second stops it at once. Only in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(_number: int, _frame: types.FrameType | None) -> None:
            self.stop(at_once=self._stop.is_set())

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
