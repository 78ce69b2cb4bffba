"""``LogObserver``: what happens to jobs, leases, the store and child processes, as records of ``logging``."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never, get_args

from holdfast.clock import SECOND, monotonic
from holdfast.errors import LeaseError, StoreError
from holdfast.log import events
from holdfast.log.events import Event
from holdfast.log.records import log, log_event
from holdfast.model.fingerprint import failure_frames, failure_line
from holdfast.model.job import State
from holdfast.model.lease import Reservation
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.model.transition import NOT_BEGUN
from holdfast.observability.success_log import SuccessLog
from holdfast.worker.decide import SKIPPED
from holdfast.worker.expired_leases import ExpiredLease
from holdfast.worker.observer import ObservedWorker, WorkerObserver
from holdfast.worker.outcome import exit_text
from holdfast.worker.processes.running import ExitedChild, Run, StopReason
from holdfast.worker.status import Settled, Status, dead_reason_of

REPEAT_SECONDS = 10.0  # between two records about one outage of the store
ALL_STATUSES: tuple[Status, ...] = get_args(Status)
EVENT_OF_STATUS: Mapping[Status, Event] = {
    "acked": events.JOB_DONE,
    "skipped": events.JOB_SKIPPED,
    "retried": events.JOB_RETRIED,
    "released": events.JOB_RELEASED,
    "rejected": events.JOB_REJECTED,
    "dead": events.JOB_DEAD,
    "cancelled": events.JOB_CANCELLED,
    "lost": events.JOB_LOST,
}
_CHILD_RECYCLED = replace(events.CHILD_REPLACED, level=logging.INFO)
_NOT_BEGUN = replace(events.LEASE_EXPIRED, level=logging.INFO)  # it has cost the job nothing
NOT_EXTENDED = "the store did not extend the lease in time"


@dataclass(slots=True)
class _Outage:
    """Calls of one verb that have failed since the last success."""

    began_at: float  # monotonic seconds
    logged_at: float
    failures: int = 0


class LogObserver(WorkerObserver):
    """Logs what a worker reports. It installs no handler: the program decides where records go."""

    def __init__(self, *, statuses: Collection[Status] = ALL_STATUSES) -> None:
        """``statuses`` are those of the attempts that are logged."""
        self._statuses = frozenset(statuses)
        self._worker = ""
        self._observed: ObservedWorker | None = None
        self._outages: dict[str, _Outage] = {}  # by verb
        self._successes = SuccessLog()

    # The worker -------------------------------------------------------------------------------------------------

    def attached(self, worker: ObservedWorker) -> None:
        """Remember the worker, whose options and progress some records show."""
        self._observed = worker

    def started(self, worker: str, queues: Sequence[str]) -> None:
        """Log ``worker.started``, with the queues and the main options."""
        self._worker = worker
        facts: dict[str, object] = {}
        if self._observed is not None:
            options = self._observed.options
            facts = {
                "concurrency": options.processes * options.concurrency,
                "lease": options.lease_for / SECOND,
                "types": len(self._observed.catalogue.types),
            }
        self._log(events.WORKER_STARTED, queues=list(queues), **facts)

    def stopping(self) -> None:
        """Log ``worker.stopping``, with the reason and the number of running attempts."""
        if self._observed is None:
            return
        drain = self._observed.options.drain
        self._log(
            events.WORKER_STOPPING,
            reason=self._observed.stop_reason,
            running=self._observed.running,
            drain=None if drain is None else drain.total_seconds(),
        )

    def stopped(self, worker: str, statuses: Mapping[str, int]) -> None:  # noqa: ARG002 - known since ``started``
        """Log ``worker.stopped``, with the number of attempts of each status."""
        self._log_summaries(at_once=True)
        self._log(events.WORKER_STOPPED, statuses=dict(statuses))

    def child_exited(self, child: ExitedChild) -> None:
        """Log ``child.replaced``, with the reason and the exit code."""
        event = _CHILD_RECYCLED if child.reason == "recycled" else events.CHILD_REPLACED
        reason = f"{child.reason}: {child.shortage}" if child.shortage else child.reason
        facts = {"pid": child.pid, "exit": exit_text(child.code), "reason": reason, "jobs": child.finished}
        log_event(event, **facts, worker=self._worker)

    # Jobs -------------------------------------------------------------------------------------------------------

    def looped(self, *, full: bool) -> None:  # noqa: ARG002 - whether the worker is busy or not
        """Log ``jobs.done`` once a second while many jobs succeed."""
        self._log_summaries()

    def reserved(self, reservations: Sequence[Reservation], seconds: float) -> None:  # noqa: ARG002 - not logged
        """Log ``job.reserved`` for each job, and the end of an outage of ``reserve``."""
        self._end_outage("reserve")
        if reservations and log.isEnabledFor(events.JOB_RESERVED.level):
            for reservation in reservations:
                self._log_job(events.JOB_RESERVED, reservation)

    def settled(self, settled: Sequence[Settled]) -> None:
        """Log each ended attempt by its status; of many successes in a second one record per type, see ``success_log``.

        The level ``debug`` shows each. With the level ``warning`` a batch of acks costs one look at each status.
        """
        if self._outages and not isinstance(settled[0].refused, StoreError):
            self._end_outage("settle")
        logs_done = log.isEnabledFor(events.JOB_DONE.level)
        for one in settled:
            if (one.status != "acked" or logs_done or one.settlement.detail) and one.status in self._statuses:
                self._log_settled(one)
        self._log_summaries()

    def _log_summaries(self, *, at_once: bool = False) -> None:
        summaries = self._successes.take(at_once=at_once)
        for summary in [] if log.isEnabledFor(logging.DEBUG) else summaries:
            self._log(
                events.JOBS_DONE,
                type=summary.type,
                count=summary.jobs,
                median=_rounded(summary.median),
                longest=_rounded(summary.longest),
            )

    def _log_settled(self, one: Settled) -> None:
        run, settlement, refused, status = one
        event = EVENT_OF_STATUS[status]
        job = run.reservation.job
        if refused is not None:
            reason = f"{type(refused).__name__}: {refused}"
            self._log_job(event, run.reservation, duration=run.seconds, verb=settlement.verb, reason=reason)
            return
        match settlement:
            case Ack() if status == "skipped":
                self._log_job(event, run.reservation, reason=settlement.detail.removeprefix(SKIPPED))
            case Ack():
                if self._successes.add(job.type, run.seconds or 0.0) or log.isEnabledFor(logging.DEBUG):
                    self._log_job(event, run.reservation, duration=run.seconds)
                if settlement.detail:
                    self._log_job(events.RESULT_NOT_STORED, run.reservation, reason=settlement.detail)
            case Retry():
                error = failure_line(settlement.error)
                if settlement.crashed:
                    self._log_job(events.JOB_CRASHED, run.reservation, duration=run.seconds, reason=error)
                self._log_job(
                    event,
                    run.reservation,
                    max_attempts=None if status == "cancelled" else job.max_attempts,
                    duration=run.seconds,
                    delay=settlement.delay / SECOND if status == "retried" else None,
                    reason=dead_reason_of(job, settlement) or settlement.detail,
                    error=None if status == "cancelled" else error or None,
                    frames=None if status == "cancelled" else failure_frames(settlement.error) or None,
                )
            case Fail():
                self._log_job(
                    event,
                    run.reservation,
                    max_attempts=job.max_attempts if status == "dead" else None,
                    duration=run.seconds,
                    reason=settlement.reason,
                    error=failure_line(settlement.error) or None,
                    frames=failure_frames(settlement.error) or None,
                )
            case Release():
                delay = settlement.delay / SECOND if status == "released" else None
                self._log_job(
                    event, run.reservation, duration=run.seconds, delay=delay or None, reason=settlement.detail
                )
            case _:
                assert_never(settlement)

    def lease_lost(self, run: Run, error: LeaseError | None) -> None:
        """Log ``lease.lost``. A lease that was not extended in time is refused later: logged once."""
        if error is not None and run.stop_reason is StopReason.LOST:
            return
        duration = None if run.began_at is None else monotonic() - run.began_at
        reason = NOT_EXTENDED if error is None else f"{type(error).__name__}: {error}"
        self._log_job(events.LEASE_LOST, run.reservation, duration=duration, reason=reason)

    def reaped(self, leases: int, expired: Sequence[ExpiredLease]) -> None:
        """Log each expired lease that the store tells of, and the number of the others."""
        told = expired if "dead" in self._statuses else ()  # else another report has the endings of jobs
        log_expired(told, worker=self._worker)
        if leases > len(told):
            self._log(events.LEASE_REAPED, leases=leases - len(told))

    # The store --------------------------------------------------------------------------------------------------

    def extended(self, leases: int, late_seconds: float) -> None:  # noqa: ARG002 - for metrics
        """Log the end of an outage of ``extend``."""
        self._end_outage("extend", is_over=leases > 0)

    def store_failed(self, task: str, error: StoreError) -> None:
        """Log ``store.failed`` when an outage begins, and then now and then."""
        now = monotonic()
        outage = self._outages.get(task)
        if outage is None:
            outage = self._outages[task] = _Outage(began_at=now, logged_at=now)
        outage.failures += 1
        if outage.failures == 1 or now - outage.logged_at >= REPEAT_SECONDS:
            outage.logged_at = now
            self._log(
                events.STORE_FAILED,
                verb=task,
                reason=f"{type(error).__name__}: {error}",
                failures=outage.failures,
                duration=_rounded(now - outage.began_at),
            )

    def _end_outage(self, verb: str, *, is_over: bool = True) -> None:
        """Log the end of an outage. One that ended because nothing was left to do is forgotten."""
        outage = self._outages.pop(verb, None) if self._outages else None
        if outage is not None and is_over:
            duration = monotonic() - outage.began_at
            self._log(events.STORE_RECOVERED, verb=verb, failures=outage.failures, duration=_rounded(duration))

    # Records ----------------------------------------------------------------------------------------------------

    def _log(self, event: Event, **fields: object) -> None:
        log_event(event, **fields, worker=self._worker)

    def _log_job(
        self, event: Event, reservation: Reservation, *, duration: float | None = None, **fields: object
    ) -> None:
        job = reservation.job
        log_event(
            event,
            type=job.type,
            job_id=job.id,
            queue=job.queue,
            attempt=job.attempts,
            duration=_rounded(duration),
            **fields,
            fence=reservation.lease.fence,
            worker=self._worker,
        )


def log_expired(expired: Iterable[ExpiredLease], **fields: object) -> None:
    """Log leases that the store has ended, and the jobs that have ended by that; ``fields`` are added to each."""
    for one in expired:
        row = one.row
        job = {"type": row.type, "job_id": row.job_id, "queue": row.queue, "attempt": row.attempt}
        lease = {"fence": row.fence, **fields}
        if row.ending is Ending.FAILED:  # it could not be read, and nobody has begun it
            error = failure_line(row.error)
            log_event(events.JOB_DEAD, **job, reason=one.dead_reason, error=error, **lease)
            continue
        log_event(
            _NOT_BEGUN if row.detail == NOT_BEGUN else events.LEASE_EXPIRED,
            **job,
            duration=None if row.reserved_at is None else _rounded((row.ended_at - row.reserved_at) / SECOND),
            reason=row.detail or None,
            holder=row.worker,
            **lease,
        )
        if row.state is State.DEAD:
            log_event(events.JOB_DEAD, **job, reason=one.dead_reason, **lease)
        elif row.state is State.CANCELLED:
            log_event(events.JOB_CANCELLED, **job, **lease)


def _rounded(seconds: float | None) -> float | None:
    """Whole microseconds."""
    return None if seconds is None else round(seconds, 6)
