"""What a scheduler tells operators: log events, metrics, and what ``CronRunner.run`` returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from holdfast.clock import SECOND, to_datetime, wall_clock
from holdfast.cron.expression import find_zone
from holdfast.cron.fire import FireJob, fire_text
from holdfast.cron.schedule import Schedule
from holdfast.errors import StoreError
from holdfast.log import events
from holdfast.log.events import Event
from holdfast.log.records import log_event, log_failure
from holdfast.observability import metric_table as table
from holdfast.observability.labels import BoundedNames, job_labels
from holdfast.observability.metrics import Metrics
from holdfast.observability.metrics_group import GuardedMetrics


class FireStatus(StrEnum):
    """What became of a fire."""

    PLANNED = "planned"  # of a preview: nothing was done
    ENQUEUED = "enqueued"
    EXISTED = "existed"  # its job was there already: it was backfilled, or the clock had stepped back
    DONE = "done"  # it ran inline, and succeeded
    FAILED = "failed"  # it ran inline, and is a dead letter now
    RELEASED = "released"  # it did not finish inline: a later ``CronRunner.run`` runs it again
    BLOCKED = "blocked"  # a dependency failed inline: it does not run


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """One fire of a schedule in one tick."""

    schedule: str
    fire: datetime  # in the time zone of the schedule
    status: FireStatus
    job_id: str | None = None  # None: there is no job
    error: str = ""  # why it failed, or is blocked


def fire_instant(schedule: Schedule, fire: int) -> datetime:
    """Return the instant of a fire in the time zone of its schedule."""
    return to_datetime(fire).astimezone(find_zone(schedule.timezone))


class Reports:
    """Logs and counts what one scheduler does. A collector of metrics that raises changes nothing."""

    def __init__(self, metrics: Metrics | None, *, scheduler: str) -> None:
        self._metrics = None if metrics is None else GuardedMetrics(metrics)
        self._scheduler = scheduler
        self._names = BoundedNames()

    def ticked(self) -> None:
        """A tick has ended: the scheduler is alive. Counters begin with 0, so that their first increase is seen."""
        self._collect(lambda metrics: metrics.gauge(table.SCHEDULER_TICK.name, wall_clock() / SECOND, {}))
        self._collect(lambda metrics: metrics.count(table.SCHEDULE_MISSED.name, 0, {}))
        self._collect(lambda metrics: metrics.count(table.SCHEDULE_FAILURES.name, 0, {}))

    def fired(self, job: FireJob, job_id: str, now: int, *, existed: bool = False) -> None:
        """A fire has its job."""
        late = max(0.0, (now - job.fire) / SECOND)
        log_event(
            events.SCHEDULE_FIRED,
            schedule=job.schedule.name,
            fire=fire_text(job.fire),
            type=job.schedule.type,
            job_id=job_id,
            queue=job.request.queue,
            late=None if job.is_trigger else late,
            reason="its job was there already" if existed else None,
            scheduler=self._scheduler,
        )
        labels = job_labels(self._names((job.request.queue, job.schedule.type)))
        if not existed:
            self._collect(lambda metrics: metrics.count(table.SCHEDULE_FIRES.name, 1, labels))
        if not existed and not job.is_trigger:
            self._collect(lambda metrics: metrics.observe(table.SCHEDULE_LATE.name, (late,), labels))

    def missed(self, schedule: Schedule, count: int, *, or_more: bool, since: int) -> None:
        """Fires do not happen, because they are too late."""
        reason = f"later than its grace time, and missed={schedule.missed}"
        self._log(
            events.SCHEDULE_MISSED,
            schedule,
            count=count,
            or_more=or_more or None,
            fire=fire_text(since),
            reason=reason,
        )
        self._collect(lambda metrics: metrics.count(table.SCHEDULE_MISSED.name, count, {}))

    def dropped(self, schedule: Schedule, fire: int, reason: str) -> None:
        """A fire that was due does not become a job."""
        self._log(events.SCHEDULE_DROPPED, schedule, fire=fire_text(fire), reason=reason)

    def changed(self, schedule: Schedule, reason: str) -> None:
        """A schedule has another state than a scheduler had left it in."""
        self._log(events.SCHEDULE_CHANGED, schedule, reason=reason)

    def undeclared(self, name: str) -> None:
        """No scheduler that is running declares this schedule: it does not fire."""
        log_event(events.SCHEDULE_UNDECLARED, schedule=name, scheduler=self._scheduler)

    def store_failed(self, error: StoreError) -> None:
        """The store does not answer, and nothing is fired until it does."""
        reason = f"{type(error).__name__}: {error}"
        log_event(events.SCHEDULER_WAITING, reason=reason, scheduler=self._scheduler)

    def failed(self, name: str, error: BaseException | str) -> None:
        """A schedule could not be fired; it is tried again."""
        if isinstance(error, str):
            log_event(events.SCHEDULE_FAILED, schedule=name, reason=error, scheduler=self._scheduler)
        else:
            reason = f"{type(error).__name__}: {error}"
            log_failure(events.SCHEDULE_FAILED, error, schedule=name, reason=reason, scheduler=self._scheduler)
        self._collect(lambda metrics: metrics.count(table.SCHEDULE_FAILURES.name, 1, {}))

    def _log(self, event: Event, schedule: Schedule, **fields: object) -> None:
        log_event(event, schedule=schedule.name, type=schedule.type, scheduler=self._scheduler, **fields)

    def _collect(self, report: Callable[[Metrics], None]) -> None:
        if self._metrics is not None:
            report(self._metrics)
