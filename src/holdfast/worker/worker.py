"""``Worker``: reserve jobs, extend their leases, run them in child processes, settle them, stop without loss."""

from __future__ import annotations

import os
import random
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from holdfast import linux
from holdfast.clock import SECOND, monotonic
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, LeaseError, StoreError, Unsupported
from holdfast.log import events
from holdfast.log.records import log_event
from holdfast.model.lease import Lease
from holdfast.model.request import DEFAULT_QUEUE
from holdfast.model.settlement import Settlement
from holdfast.wire.signing import Signer
from holdfast.worker.background_call import BackgroundCall
from holdfast.worker.cancel_watch import CancelWatch
from holdfast.worker.catalogue import Catalogue, Handler, HandlerKeywords, make_handler
from holdfast.worker.decide import ack, decide
from holdfast.worker.guard import Guard
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.held_jobs import HeldJobs
from holdfast.worker.inline_attempt import InlineAttempts
from holdfast.worker.interpreter import gc_frozen, tuned_interpreter
from holdfast.worker.job_log import set_worker_name
from holdfast.worker.job_source import Demand, JobSource, StoreJobSource
from holdfast.worker.last_attempts import report_starts
from holdfast.worker.limit_proposals import ProposedLimits
from holdfast.worker.limits import RecycleLimits
from holdfast.worker.lost_fields import without_lost_fields
from holdfast.worker.observer import Observers, WorkerObserver
from holdfast.worker.options import WorkerOptions
from holdfast.worker.outcome import Outcome, RetryRequested, Succeeded
from holdfast.worker.processes.pool import ChildPool
from holdfast.worker.processes.running import Run, StopReason
from holdfast.worker.reserve_loop import POLL_SECONDS, ReserveLoop
from holdfast.worker.retry_policy import policy_of
from holdfast.worker.settler import Settler, send_last_notes
from holdfast.worker.shutdown import Shutdown
from holdfast.worker.status import Settled, Tally, WorkerResult, settled_statuses, status_of
from holdfast.worker.store_silence import StoreSilence
from holdfast.worker.timing import WorkerTiming
from holdfast.worker.type_holds import TypeHolds
from holdfast.worker.verification import Verification


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
        timing: WorkerTiming = WorkerTiming(),
    ) -> None:
        """``run`` reserves jobs from ``source`` instead of the store's queues. Everything else uses ``driver``.

        With a ``signer``, no handler gets a job whose signature is wrong: see ``verification``.
        """
        self.driver = driver
        self.options = options or WorkerOptions()
        self.catalogue = catalogue or Catalogue()
        self.timing = timing
        self.name = self.options.name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self.queues = list(self.options.queues or (DEFAULT_QUEUE,))
        self.tally = Tally()
        self._lease_for = self.options.lease_for
        self._source = source
        self._observers = Observers(observers)
        self._pool: ChildPool | None = None  # created by ``prepare``
        self._running_pool: ChildPool | None = None  # of ``run``
        self._guard: Guard | None = None  # of ``run``, created by ``prepare``
        self._shutdown = Shutdown()
        self._held_jobs = HeldJobs(self._lease_for / SECOND)
        self._random = random.Random()  # noqa: S311 - jitter
        self._inline = InlineAttempts(self.catalogue)  # of ``process_once``
        self._verification = None if signer is None else Verification(driver, signer, worker=self.name)
        self._proposed_limits = ProposedLimits(
            driver, self.catalogue, self.options.queue_limits, self.options.queue_orders
        )
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
        self._shutdown.request(at_once=at_once)

    def hold(self) -> None:
        """Reserve no more, but keep running the reserved jobs without a time limit, until ``stop``."""
        self._shutdown.hold()

    def close(self) -> None:
        """Close the resources of ``process_once``. ``run`` closes its own."""
        self._inline.close()

    @property
    def is_stopping(self) -> bool:
        """Whether ``stop`` was called, or a signal has stopped ``run``."""
        return self._shutdown.is_requested

    @property
    def stop_reason(self) -> str:
        """Who stopped the worker: the name of a signal, or the caller. Empty if nobody did."""
        return self._shutdown.reason

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
        self._proposed_limits.store_once()
        self._type_holds.read_rules()
        guard = self._make_guard()
        reservations = self._store_source(self.queues if queue is None else [queue]).reserve(Demand(limit=1))
        if not reservations:
            return WorkerResult(status="empty")
        if self._type_holds.has_breakers:
            self._type_holds.reserved(reservations)
        [reservation] = reservations
        run = Run(1, reservation)
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
            outcome = self._refusal_of(run, guard) or self._inline.run(run)
        finally:
            heartbeat.stop()
        [lease] = heartbeat.remove([run])
        send_last_notes(self.driver, [run], [lease], self._lease_for)
        settlements = guard.add_writes([run], [self._settlement_of(run, outcome, lease)])
        if self._type_holds.is_active:
            self._type_holds.settling([run], settlements)
        [refused] = guard.settle([run], settlements)
        [settlement] = settlements
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

    def _make_guard(self) -> Guard:
        return Guard(self.driver, self.catalogue, self.options, self._observers, timing=self.timing)

    def _store_source(self, queues: list[str]) -> StoreJobSource:
        return StoreJobSource(self.driver, queues, self.catalogue.types, lease_for=self._lease_for, worker=self.name)

    # Jobs in child processes ------------------------------------------------------------------------------------

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
        cpu_limits = [self.options.limits.cpu, *(handler.cpu for handler in self.catalogue)]
        if not linux.IS_LINUX and any(cpu_limits):
            wanted = "no limit, because only Linux tells the processor time of another process"
            raise InvalidInput("cpu", wanted=wanted, got=next(filter(None, cpu_limits)))
        self._guard = self._make_guard()
        self._type_holds.read_rules()
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
        ``stop`` has the effect of calling ``stop()``. A worker may run again, with numbers of its own, unless it was
        stopped.
        """
        self.tally = Tally()
        self._held_jobs = HeldJobs(self._lease_for / SECOND)
        options = replace(
            self.options,
            until_drained=self.options.until_drained if until_drained is None else until_drained,
            max_jobs=self.options.max_jobs if max_jobs is None else max_jobs,
        )
        self._shutdown.caller_event = stop or threading.Event()
        with self._shutdown.by_signals(), gc_frozen():
            if self._pool is None:
                self.prepare()
            pool, self._pool = self._pool, None
            assert pool is not None
            self._running_pool = pool
            self._run(pool, options)
        return Counter(self.tally.statuses)

    def _run(self, pool: ChildPool, options: WorkerOptions) -> None:
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
            publish_deadline=pool.deadline.set,
        )
        settler = Settler(
            self.driver,
            heartbeat,
            lease_for=self._lease_for,
            settlement_of=self._settlement_of,
            add_writes=lambda runs, settlements: self._before_settle(pool, guard, runs, settlements),
            settle=guard.settle,
            on_settled=self._count_settled,
            observer=self._observers,
        )
        loop = ReserveLoop(
            driver=self.driver,
            catalogue=self.catalogue,
            options=options,
            source=self._source or self._store_source(self.queues),
            pool=pool,
            heartbeat=heartbeat,
            settler=settler,
            guard=guard,
            verification=self._verification,
            type_holds=self._type_holds,
            held_jobs=self._held_jobs,
            proposed_limits=self._proposed_limits,
            observers=self._observers,
            shutdown=self._shutdown,
            silence=StoreSilence(self.timing.silence_seconds),
            timing=self.timing,
        )
        cancel_watch = CancelWatch(self.driver, heartbeat)
        heartbeat.start()
        settler.start()
        cancel_watch.start()
        pool.start(
            lambda ended, more_soon: settler.add(ended, more_soon=more_soon),
            on_lost=lambda run: self._observers.lease_lost(run, None),
            on_exit=self._observers.child_exited,
        )
        self._observers.started(self.name, self.queues)
        if lost := self.driver.capabilities.lost:
            log_event(events.STORE_LACKS, worker=self.name, reason=", ".join(sorted(lost)))
        try:
            with tuned_interpreter():
                # In another thread: this one has to handle signals, also while the store does not answer.
                reserving = BackgroundCall(loop.run, name="holdfast-reserve")
                starts = partial(report_starts, pool, heartbeat, self._observers)
                BackgroundCall(starts, name="holdfast-last-attempts")
                while not reserving.wait(POLL_SECONDS) and not self._shutdown.is_requested:
                    loop.report_silence(POLL_SECONDS)
                self._finish(pool, loop, reserving)
        finally:
            pool.close()
            seconds_left = self._shutdown.time_to_settle(self.timing.stop_seconds)
            settler.stop(seconds_left)
            heartbeat.stop(seconds_left())
            cancel_watch.stop(seconds_left())
            self._observers.stopped(self.name, self.tally.statuses)

    def _finish(self, pool: ChildPool, loop: ReserveLoop, reserving: BackgroundCall) -> None:
        """Wait for the running jobs; once the worker is stopped, only for the drain time, then interrupt them.

        A reserve that the store does not answer is left behind. The leases that it may still get expire.
        """
        while pool.busy() and not self._shutdown.is_requested:
            with pool.changed:
                pool.changed.wait(POLL_SECONDS)
        if self._shutdown.is_requested:
            self._observers.stopping()
        stopped_at = monotonic()
        deadline = self._shutdown.begin_drain(self.options.drain, self.options.grace)
        while not self._shutdown.is_at_once:
            loop.release_unstarted()
            left = POLL_SECONDS if deadline is None else min(POLL_SECONDS, deadline - monotonic())
            if left <= 0:
                break
            if pool.busy():
                with pool.changed:
                    pool.changed.wait(left)
            elif reserving.has_ended or monotonic() - stopped_at > self.timing.stop_seconds:
                break
            else:
                reserving.wait(left)
        if self._source is not None:  # the caller's code must not go on after ``run``
            reserving.wait()
        loop.release_unstarted()
        pool.interrupt_all(StopReason.SHUTDOWN)

    # Ended attempts ---------------------------------------------------------------------------------------------

    def _settlement_of(self, run: Run, outcome: Outcome, lease: Lease) -> Settlement:
        settlement = self._decide(run, outcome, lease)
        can = self.driver.capabilities
        return without_lost_fields(settlement, can) if can.lost else settlement

    def _decide(self, run: Run, outcome: Outcome, lease: Lease) -> Settlement:
        if isinstance(outcome, Succeeded):  # the most frequent outcome needs no retry policy
            return ack(lease, outcome, run.started_at)
        if isinstance(outcome, RetryRequested) and outcome.pause_type and outcome.after is not None:
            self._type_holds.request_pause(run.reservation, outcome.after)
        job = run.reservation.job
        policy = policy_of(job, self.catalogue.get(job.type), self.options.retry_policy)
        return decide(job, lease, outcome, policy, random=self._random.random(), started_at=run.started_at)

    def _before_settle(
        self, pool: ChildPool, guard: Guard, runs: Sequence[Run], settlements: list[Settlement]
    ) -> list[Settlement]:
        """Hold the types whose breaker opens, and add the writes of the guard."""
        if self._type_holds.is_active:
            for queue, type_ in self._type_holds.settling(runs, settlements):
                pool.give_back(queue, type_)
        return guard.add_writes(runs, settlements)

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

    def _on_lost(self, pool: ChildPool, run: Run, error: LeaseError) -> None:
        self._observers.lease_lost(run, error)
        pool.interrupt(run, StopReason.LOST)
