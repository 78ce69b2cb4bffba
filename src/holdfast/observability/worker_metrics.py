"""``MetricsObserver``: what a worker does, as metrics. Jobs are grouped first, so that a batch costs a few calls."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from holdfast.clock import SECOND, wall_clock
from holdfast.errors import LeaseError, StoreError
from holdfast.model import transition
from holdfast.model.job import JobRecord
from holdfast.model.lease import Reservation
from holdfast.model.ledger import Ending
from holdfast.observability import metric_table as table
from holdfast.observability.labels import OTHER, BoundedNames, BoundedReasons, JobNames, job_labels
from holdfast.observability.metrics import Metrics
from holdfast.worker import decide
from holdfast.worker.attempt import BAD_RESULT
from holdfast.worker.expired_leases import ExpiredLease
from holdfast.worker.guard import NOT_ALLOWED
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.processes.running import Run
from holdfast.worker.status import Settled, Status, dead_reason_of

REASONS = frozenset(  # of the dead letters that a worker makes; handlers have others
    {
        transition.ATTEMPTS_EXHAUSTED,
        transition.LEASE_EXPIRED,
        transition.POISON,
        transition.RELEASED_TOO_LONG,
        transition.UNREADABLE,
        decide.BAD_PAYLOAD,
        decide.BAD_SIGNATURE,
        decide.UNRECOVERABLE,
        BAD_RESULT,
        NOT_ALLOWED,
        OTHER,
    }
)
TASKS = frozenset({"reserve", "guard", "extend", "settle", "counts", "ledger", OTHER})  # that may fail in the store
VERBS = ("extend", "settle")


class MetricsObserver(WorkerObserver):
    """Counts what one worker reports. ``jobs`` are the queues and types of its handlers."""

    def __init__(self, metrics: Metrics, jobs: Iterable[JobNames] = ()) -> None:
        self._metrics = metrics
        self._bounded = BoundedNames()
        self._reason = BoundedReasons(REASONS)
        self._in_flight: Counter[JobNames] = Counter()
        self._lock = threading.Lock()  # of _in_flight: the worker reserves and settles in two threads
        self._jobs = tuple(jobs)

    def started(self, worker: str, queues: Sequence[str]) -> None:
        """Export every series that can come with 0: else the first increase of each would not be seen."""
        del worker, queues
        for task in TASKS:
            self._metrics.count(table.STORE_FAILURES.name, 0, {"task": task})
        for verb in VERBS:
            self._metrics.count(table.REFUSED.name, 0, {"verb": verb})
        self._metrics.count(table.REAPED.name, 0, {})
        self._change_in_flight(dict.fromkeys(self._jobs, 0), 1)

    def reserved(self, reservations: Sequence[Reservation], seconds: float) -> None:
        """Count these jobs and their waits, and the time of the reserve."""
        metrics, now = self._metrics, wall_clock()
        metrics.gauge(table.LAST_RESERVE.name, now / SECOND, {})
        metrics.observe(table.RESERVE_SECONDS.name, (seconds,), {})
        if not reservations:
            return
        groups: defaultdict[JobNames, list[JobRecord]] = defaultdict(list)
        for reservation in reservations:
            job = reservation.job
            groups[job.queue, job.type].append(job)
        self._change_in_flight({names: len(jobs) for names, jobs in groups.items()}, 1)
        for names, jobs in groups.items():
            labels = self._labels(names)
            metrics.count(table.RESERVED.name, len(jobs), labels)
            metrics.observe(table.WAIT.name, _waits(jobs, now), labels)

    def settled(self, settled: Sequence[Settled]) -> None:
        """Count these attempts by queue, type and status, and their durations."""
        groups: defaultdict[JobNames, list[Settled]] = defaultdict(list)
        for one in settled:
            job = one[0].reservation.job
            groups[job.queue, job.type].append(one)
        self._change_in_flight({names: len(group) for names, group in groups.items()}, -1)
        for names, group in groups.items():
            labels = self._labels(names)
            statuses = Counter([status for _, _, _, status in group])
            for status, count in statuses.items():
                self._metrics.count(table.SETTLED.name, count, {**labels, "outcome": status})
            seconds = [run.seconds for run, _, _, _ in group if run.seconds is not None]
            if seconds:
                self._metrics.observe(table.RUN.name, seconds, labels)
            if statuses["acked"] < len(group):
                self._count_unusual(group)

    def _count_unusual(self, group: Sequence[Settled]) -> None:
        """Count what is special about attempts of one queue and type that were not acked."""
        job = group[0].run.reservation.job
        labels = self._labels((job.queue, job.type))
        is_dead = [one for one in group if one.status in ("dead", "rejected")]
        reasons = Counter(dead_reason_of(run.reservation.job, settlement) for run, settlement, _, _ in is_dead)
        for reason, count in reasons.items():
            self._count_dead(labels, reason, count)
        numbers = {
            table.RETRIES: sum(one.status == "retried" for one in group),
            table.TIMEOUTS: sum(one.settlement.detail == decide.TIMED_OUT for one in group),
        }
        for metric, number in numbers.items():
            if number:
                self._metrics.count(metric.name, number, labels)
        refused = sum(isinstance(one.refused, LeaseError) for one in group)
        if refused:
            self._metrics.count(table.REFUSED.name, refused, {"verb": "settle"})

    def extended(self, leases: int, late_seconds: float) -> None:
        """Add the lateness of a heartbeat to its histogram."""
        if leases:
            self._metrics.observe(table.HEARTBEAT_LATE.name, (late_seconds,), {})

    def lease_lost(self, run: Run, error: LeaseError | None) -> None:
        """Count a heartbeat that was refused."""
        del run
        if error is not None:  # else the store did not answer in time
            self._metrics.count(table.REFUSED.name, 1, {"verb": "extend"})

    def reaped(self, leases: int, expired: Sequence[ExpiredLease]) -> None:
        """Count expired leases, and the jobs that are dead because of them."""
        unreadable = sum(one.row.ending is Ending.FAILED for one in expired)  # no lease of theirs has expired
        self._metrics.count(table.REAPED.name, leases - unreadable, {})
        dead = Counter((one.row.queue, one.row.type, one.dead_reason) for one in expired if one.dead_reason is not None)
        for (queue, type_, reason), count in dead.items():
            self._count_dead(self._labels((queue, type_)), reason, count)

    def store_failed(self, task: str, error: StoreError) -> None:
        """Count a failed call by its task."""
        del error
        self._metrics.count(table.STORE_FAILURES.name, 1, {"task": task if task in TASKS else OTHER})

    def _count_dead(self, labels: dict[str, str], reason: str | None, count: int) -> None:
        self._metrics.count(table.DEAD.name, count, {**labels, "reason": self._reason(reason or OTHER)})

    def _labels(self, names: JobNames) -> dict[str, str]:
        return job_labels(self._bounded(names))

    def _change_in_flight(self, counts: Mapping[JobNames, int], sign: int) -> None:
        with self._lock:
            for names, count in counts.items():
                bounded = self._bounded(names)
                if bounded not in self._in_flight:
                    self._export_zeros(job_labels(bounded))
                self._in_flight[bounded] += sign * count
                self._metrics.gauge(table.IN_FLIGHT.name, self._in_flight[bounded], job_labels(bounded))

    def _export_zeros(self, labels: dict[str, str]) -> None:
        for metric in (table.RESERVED, table.RETRIES, table.TIMEOUTS):
            self._metrics.count(metric.name, 0, labels)
        for outcome in get_args(Status):
            self._metrics.count(table.SETTLED.name, 0, {**labels, "outcome": outcome})
        for reason in REASONS:
            self._metrics.count(table.DEAD.name, 0, {**labels, "reason": reason})


def _waits(jobs: Sequence[JobRecord], now: int) -> list[float]:
    """Return for how many seconds jobs had been due. After an expired lease it is unknown since when a job waits."""
    waits = [(now - job.created_at) / SECOND for job in jobs if job.run_at is None and job.attempts == 1]
    if len(waits) < len(jobs):
        waits += [(now - job.run_at) / SECOND for job in jobs if job.run_at is not None]
    return waits if min(waits, default=0) >= 0 else [max(0.0, wait) for wait in waits]  # the producer's clock is ahead
