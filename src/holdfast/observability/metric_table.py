"""Every metric of Holdfast: its name, kind, labels and meaning. The table of the docs is made from this one.

Names and units follow Prometheus: a counter ends in ``_total``, a duration is in seconds.

The values of every label are bounded. ``outcome``, ``state``, ``ending``, ``verb``, ``task``, ``operation``
and ``status`` are closed sets. ``queue``, ``type`` and some values of ``reason`` are texts that users choose: see
``labels``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How the values of a metric are combined."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric. ``buckets`` are the upper bounds of a histogram, without infinity."""

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()
    meaning: str
    buckets: tuple[float, ...] = ()


SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)
JOB = ("queue", "type")

_counter, _gauge, _histogram = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

# Of the process that enqueues
ENQUEUED = Metric(
    name="holdfast_jobs_enqueued_total",
    kind=_counter,
    labels=JOB,
    meaning="New jobs that this process stored.",
)

# Of a worker
RESERVED = Metric(
    name="holdfast_jobs_reserved_total", kind=_counter, labels=JOB, meaning="Jobs that the worker reserved."
)
SETTLED = Metric(
    name="holdfast_jobs_settled_total",
    kind=_counter,
    labels=(*JOB, "outcome"),
    meaning="Attempts that ended: acked, skipped, retried, released, rejected, dead, cancelled or lost.",
)
DEAD = Metric(
    name="holdfast_jobs_dead_total",
    kind=_counter,
    labels=(*JOB, "reason"),
    meaning="Dead letters of the worker, by reason. Numbers and quoted texts in the reason of a handler become "
    "placeholders; after 20 different reasons of handlers, the rest is `other`.",
)
RETRIES = Metric(
    name="holdfast_job_retries_total",
    kind=_counter,
    labels=JOB,
    meaning="Failed attempts after which the job runs again.",
)
TIMEOUTS = Metric(
    name="holdfast_job_timeouts_total",
    kind=_counter,
    labels=JOB,
    meaning="Attempts that were stopped at their timeout.",
)
REAPED = Metric(
    name="holdfast_leases_reaped_total",
    kind=_counter,
    meaning="Expired leases that the worker ended, in its reserves and its maintenance.",
)
REFUSED = Metric(
    name="holdfast_leases_refused_total",
    kind=_counter,
    labels=("verb",),
    meaning="Calls that the store refused because the lease had ended: extend or settle.",
)
HEARTBEAT_LATE = Metric(
    name="holdfast_heartbeat_late_seconds",
    kind=_histogram,
    meaning="How long after its due time a heartbeat began.",
    buckets=SECONDS,
)
RESERVE_SECONDS = Metric(
    name="holdfast_reserve_seconds", kind=_histogram, meaning="How long a call of reserve took.", buckets=SECONDS
)
WAIT = Metric(
    name="holdfast_job_wait_seconds",
    kind=_histogram,
    labels=JOB,
    meaning="From the instant a job was due to its reservation, by the clocks of producer and worker.",
    buckets=SECONDS,
)
RUN = Metric(
    name="holdfast_job_run_seconds",
    kind=_histogram,
    labels=JOB,
    meaning="How long a handler ran, whatever its outcome.",
    buckets=SECONDS,
)
IN_FLIGHT = Metric(
    name="holdfast_worker_jobs_in_flight",
    kind=_gauge,
    labels=JOB,
    meaning="Jobs that the worker has reserved and not settled.",
)
LAST_RESERVE = Metric(
    name="holdfast_worker_last_reserve_timestamp_seconds",
    kind=_gauge,
    meaning="When the store last answered a reserve of the worker.",
)
STORE_FAILURES = Metric(
    name="holdfast_store_failures_total",
    kind=_counter,
    labels=("task",),
    meaning="Calls to the store that failed, and are tried again.",
)

# Of a scheduler
SCHEDULE_FIRES = Metric(
    name="holdfast_schedule_fires_total",
    kind=_counter,
    labels=JOB,
    meaning="Jobs that this scheduler enqueued for its schedules.",
)
SCHEDULE_LATE = Metric(
    name="holdfast_schedule_late_seconds",
    kind=_histogram,
    labels=JOB,
    meaning="From the instant of a fire to the tick that enqueued its job.",
    buckets=SECONDS,
)
SCHEDULE_MISSED = Metric(
    name="holdfast_schedule_missed_total",
    kind=_counter,
    meaning="Fires that were later than the grace time of their schedule, and were dropped by its `missed` policy.",
)
SCHEDULE_FAILURES = Metric(
    name="holdfast_schedule_failures_total",
    kind=_counter,
    meaning="Schedules that could not be fired, and are tried again.",
)
SCHEDULER_TICK = Metric(
    name="holdfast_scheduler_last_tick_timestamp_seconds",
    kind=_gauge,
    meaning="When the scheduler last looked for what is due.",
)

# Of the store, read by workers and by `holdfast metrics`
JOBS = Metric(
    name="holdfast_jobs",
    kind=_gauge,
    labels=(*JOB, "state"),
    meaning="Jobs of the store, by state. The workers of a queue export the same: use `max`.",
)
OLDEST_READY = Metric(
    name="holdfast_oldest_ready_age_seconds",
    kind=_gauge,
    labels=JOB,
    meaning="For how long the oldest ready job has been due. The workers of a queue export the same: use `max`.",
)

BREAKER_OPEN = Metric(
    name="holdfast_breaker_open",
    kind=_gauge,
    labels=JOB,
    meaning="1 while the circuit breaker of a type is open or half open, 0 after it has closed. The workers of a "
    "queue export the same: use `max`.",
)

DOMAINS_HALTED = Metric(
    name="holdfast_domains_halted",
    kind=_gauge,
    labels=("queue",),
    meaning="Domains that a dead job has halted. The workers of a queue export the same: use `max`.",
)
DOMAIN_GAPS = Metric(
    name="holdfast_domain_gaps",
    kind=_gauge,
    labels=("queue",),
    meaning="Domains whose missing offset is overdue (`gap_report_after`). The workers of a queue export the same: use "
    "`max`.",
)

# Of the ledger, read by `holdfast metrics`: all workers and Spark slots
LEDGER_ENDINGS = Metric(
    name="holdfast_ledger_endings_total",
    kind=_counter,
    labels=(*JOB, "ending"),
    meaning="Ledger rows: acked, retried, failed, released, expired, cancelled, requeued or purged.",
)
LEDGER_DEAD = Metric(
    name="holdfast_ledger_dead_total", kind=_counter, labels=JOB, meaning="Endings after which the job was dead."
)
LEDGER_WAIT = Metric(
    name="holdfast_ledger_wait_seconds",
    kind=_histogram,
    labels=JOB,
    meaning="From the instant a job was available to its reservation, by the clock of the store.",
    buckets=SECONDS,
)
LEDGER_RUN = Metric(
    name="holdfast_ledger_run_seconds",
    kind=_histogram,
    labels=JOB,
    meaning="From the start of a handler to the end of its lease.",
    buckets=SECONDS,
)
LEDGER_READ = Metric(
    name="holdfast_ledger_last_row_timestamp_seconds",
    kind=_gauge,
    meaning="When the last row that was counted was written.",
)
LEDGER_TRIMMED = Metric(
    name="holdfast_ledger_trimmed_total",
    kind=_counter,
    meaning="How often rows were trimmed before they were counted.",
)

# Of the HTTP service
HTTP_REQUESTS = Metric(
    name="holdfast_http_requests_total",
    kind=_counter,
    labels=("operation", "status"),
    meaning="Requests that the HTTP service answered, by operation of its OpenAPI document and status.",
)
HTTP_SECONDS = Metric(
    name="holdfast_http_request_seconds",
    kind=_histogram,
    labels=("operation",),
    meaning="How long a request took. A claim or a result that waits takes as long as it waits.",
    buckets=SECONDS,
)

HTTP_TOKEN_FAILURES = Metric(
    name="holdfast_http_token_failures_total",
    kind=_counter,
    labels=("outcome",),
    meaning="Requests of the HTTP service whose token was `missing` or `refused`, or could not be checked: "
    "`unavailable`.",
)

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        ENQUEUED,
        RESERVED,
        SETTLED,
        DEAD,
        RETRIES,
        TIMEOUTS,
        REAPED,
        REFUSED,
        HEARTBEAT_LATE,
        RESERVE_SECONDS,
        WAIT,
        RUN,
        IN_FLIGHT,
        LAST_RESERVE,
        STORE_FAILURES,
        SCHEDULE_FIRES,
        SCHEDULE_LATE,
        SCHEDULE_MISSED,
        SCHEDULE_FAILURES,
        SCHEDULER_TICK,
        JOBS,
        OLDEST_READY,
        BREAKER_OPEN,
        DOMAINS_HALTED,
        DOMAIN_GAPS,
        LEDGER_ENDINGS,
        LEDGER_DEAD,
        LEDGER_WAIT,
        LEDGER_RUN,
        LEDGER_READ,
        LEDGER_TRIMMED,
        HTTP_REQUESTS,
        HTTP_SECONDS,
        HTTP_TOKEN_FAILURES,
    )
}
