"""Every log event: its name, its level, its fields, and what it says. The documentation is made from this list.

A field is an attribute of the log record, and a key of the JSON line. Fields without a value are left out.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

WORKER_LOGGER = "holdfast.worker"

FIELDS = {
    "job_id": "the id of the job",
    "type": "its type",
    "queue": "its queue",
    "domain": "the domain of a queue",
    "offset": "the offset that a domain waits for",
    "position": "the offset from which on a domain waits",
    "attempt": "the number of the attempt, from 1",
    "max_attempts": "the most attempts of the job",
    "fence": "the fence of the lease",
    "worker": "the name of the worker",
    "duration": "seconds that the handler ran, or that the store was out of reach",
    "delay": "seconds until the job is due again",
    "reason": "why, in a few words",
    "error": "class and first line of the exception; the job keeps the whole text",
    "frames": "the last frames of the exception, as `file:line in function: source`; not in the text format",
    "verb": "the call to the store: `reserve`, `extend`, `settle`",
    "failures": "calls that failed in this outage so far, or exceptions of the collector or observer so far",
    "leases": "expired leases that were ended",
    "holder": "the worker that held the lease",
    "queues": "the queues of the worker",
    "concurrency": "the jobs that the worker runs at a time",
    "lease": "seconds of a lease",
    "types": "the number of job types that the worker runs",
    "running": "jobs that the child processes execute",
    "drain": "seconds that running jobs may still take; left out without a limit",
    "statuses": "attempts per status",
    "pid": "a process id",
    "exit": "the exit code, or the signal that ended the process",
    "jobs": "jobs that the process had finished",
    "job_ids": "the jobs that had begun in the process",
    "children": "child processes that ended with it",
    "processes": "the processes that were ended",
    "signed_by": "the id of the signing key",
    "run": "the number of an attempt inside this worker",
    "kind": "the message of the child",
    "count": "jobs that succeeded, settlements that were not answered, or fires that were missed",
    "median": "seconds that half of the handlers took at most",
    "longest": "seconds that the slowest handler took",
    "or_more": "true if only so many fires were counted",
    "schedule": "the name of the schedule",
    "fire": "the instant of the fire, in UTC",
    "late": "seconds from the instant of the fire to this event",
    "scheduler": "the name of the scheduler: that of its worker, if it has one",
    "task": "`reap`, `trim` or `domains`",
    "settings": "the retention, limits or order of the settings, or the limits of the handler",
    "store": "the retention, limits or order of the store",
    "resource": "the name of the resource",
    "observer": "the class of the observer",
    "url": "the address of `/metrics`, `/healthz` and `/readyz`",
    "path": "the path of the request",
    "file": "the path of the file",
    "mode": "who can read and write the file, as `chmod` takes it",
    "auth": "who checks tokens",
    "operation": "the call, as the OpenAPI document names it",
    "request_id": "the id of the request, which its answer has, too",
    "subject": "who has called: the `sub` of the token",
    "space": "the space of the call, or of the callback",
    "target": "the queue or the tasks that were changed",
    "status": "the status of the answer",
    "connections": "connections that the limit of open files allows",
    "wanted": "connections that the settings want",
    "refused": "tokens that were refused for this reason so far",
    "setting": "the setting that names the issuer",
    "subscription": "the id of the subscription",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One kind of log record."""

    name: str
    level: int
    says: str
    fields: tuple[str, ...]
    logger: str = WORKER_LOGGER


_JOB = ("type", "job_id", "queue", "attempt")
_LEASE = ("fence", "worker")


def _job_event(name: str, level: int, says: str, *fields: str) -> Event:
    return Event(name=name, level=level, says=says, fields=(*_JOB, *fields, *_LEASE))


def _event(name: str, level: int, says: str, *fields: str, logger: str = WORKER_LOGGER) -> Event:
    return Event(name=name, level=level, says=says, fields=fields, logger=logger)


# The jobs of a worker ---------------------------------------------------------------------------------------

JOB_RESERVED = _job_event("job.reserved", logging.DEBUG, "the handler is about to run")
JOB_DONE = _job_event("job.done", logging.INFO, "the handler succeeded, and the ack is stored", "duration")
JOBS_DONE = _event(
    "jobs.done",
    logging.INFO,
    "so many more jobs of this type succeeded in the last second: while there are more than 50 a second, they have no "
    "lines of their own. The level `debug` shows each",
    "type",
    "count",
    "median",
    "longest",
    "worker",
)
JOB_SKIPPED = _job_event(
    "job.skipped",
    logging.INFO,
    "the work of the job was finished before: its handler was not called, and the job is done",
    "reason",
)
JOB_RETRIED = _job_event(
    "job.retried",
    logging.WARNING,
    "the attempt failed, and the job runs again. Reason: the class of the exception, `timed out`, `out of cpu`, "
    "`crashed` or `retry asked for`",
    "duration",
    "max_attempts",
    "delay",
    "reason",
    "error",
    "frames",
)
JOB_DEAD = _job_event(
    "job.dead",
    logging.ERROR,
    "the job is a dead letter",
    "duration",
    "max_attempts",
    "reason",
    "error",
    "frames",
)
JOB_REJECTED = _job_event(
    "job.rejected",
    logging.ERROR,
    "the payload does not fit the handler, or the signature is bad: a dead letter",
    "duration",
    "reason",
    "error",
)
JOB_CRASHED = _job_event(
    "job.crashed",
    logging.ERROR,
    "the process of the handler died; `job.retried` or `job.dead` follows",
    "duration",
    "reason",
)
JOB_RELEASED = _job_event(
    "job.released",
    logging.INFO,
    "the attempt does not count. Reason: `shutdown`, `lease lost`, `not started`, the text of a snooze, and others",
    "duration",
    "delay",
    "reason",
)
JOB_CANCELLED = _job_event("job.cancelled", logging.INFO, "the attempt was stopped by a cancel", "duration", "reason")
JOB_LOST = _job_event(
    "job.lost",
    logging.WARNING,
    "the settlement was refused or did not reach the store; the job runs again",
    "duration",
    "verb",
    "reason",
)
RESULT_NOT_STORED = _job_event(
    "result.not_stored",
    logging.WARNING,
    "the job is done, but its result or the mark of its guard cannot be stored",
    "reason",
)
LEASE_LOST = _job_event(
    "lease.lost",
    logging.WARNING,
    "a running attempt lost its lease and is interrupted",
    "duration",
    "reason",
)
LEASE_EXPIRED = _job_event(
    "lease.expired",
    logging.WARNING,
    "the lease had expired, and this worker or the service (then with `space`) ended it: `holder` has died or stalled. "
    "Reason: `not begun` if no attempt was used; then the level is info",
    "duration",
    "reason",
    "holder",
    "space",
)

# The worker and its store -----------------------------------------------------------------------------------

WORKER_STARTED = _event(
    "worker.started",
    logging.INFO,
    "the worker begins to reserve jobs",
    "worker",
    "queues",
    "concurrency",
    "lease",
    "types",
)
WORKER_STOPPING = _event(
    "worker.stopping",
    logging.INFO,
    "the worker reserves nothing more, and lets running jobs end. Reason: the signal, or how the program asked",
    "worker",
    "reason",
    "running",
    "drain",
)
WORKER_STOPPED = _event("worker.stopped", logging.INFO, "the worker has ended", "worker", "statuses")
LEASE_REAPED = _event(
    "lease.reaped",
    logging.WARNING,
    "expired leases were ended, without a record of each: by a slot of Spark, whose outcomes have them, or in a store "
    "that does not tell which (over HTTP, the service logs each)",
    "leases",
    "worker",
)
STORE_FAILED = _event(
    "store.failed",
    logging.WARNING,
    "a call to the store failed, and is repeated, or the store does not answer; logged at first, then every 10 seconds",
    "verb",
    "reason",
    "failures",
    "duration",
    "worker",
)
STORE_RECOVERED = _event(
    "store.recovered",
    logging.WARNING,
    "the call succeeds again",
    "verb",
    "failures",
    "duration",
    "worker",
)
CHILD_REPLACED = _event(
    "child.replaced",
    logging.WARNING,
    "a child process is replaced: `recycled` (level info), `damaged` because it had run out of file descriptors, "
    "memory or threads, `killed` because an attempt did not stop, or `crashed`",
    "pid",
    "exit",
    "reason",
    "jobs",
    "worker",
)

# Rare ones, logged where they happen --------------------------------------------------------------------------

JOB_PROCESSES_ENDED = _event(
    "job.processes_ended",
    logging.WARNING,
    "processes that an attempt left behind were ended",
    "job_id",
    "type",
    "processes",
)
JOB_BEGUN_AGAIN = _event(
    "job.begun_again",
    logging.WARNING,
    "an attempt failed in a process that others may have damaged, and begins again in a new one, at no cost",
    "job_id",
    "type",
    "attempt",
    "pid",
    "reason",
)
JOB_FORKED_PROCESS_ENDED = Event(
    name="job.forked_process_ended",
    level=logging.WARNING,
    says="a forked process that returned from the handler was ended",
    fields=("job_id", "type", "queue", "attempt", "fence", "worker", "pid"),
)
CHILD_UNREADABLE = _event(
    "child.unreadable",
    logging.WARNING,
    "a child sent an unreadable message, and is killed",
    "pid",
    "reason",
    "job_ids",
)
CHILD_LATE_MESSAGE = _event(
    "child.late_message", logging.WARNING, "a second answer for an attempt is ignored", "pid", "run", "kind"
)
CHILD_NOT_KILLED = _event("child.not_killed", logging.ERROR, "a child did not end after SIGKILL", "pid")
CHILD_NOT_STARTED = _event(
    "child.not_started",
    logging.ERROR,
    "a child cannot be started, and is tried again every second; logged at first, then every 10 seconds",
    "reason",
    "children",
)
FORKSERVER_EXITED = _event(
    "forkserver.exited", logging.ERROR, "the fork server ended, and is replaced", "pid", "children"
)
FORKSERVER_KILLED = _event("forkserver.killed", logging.ERROR, "the fork server had to be killed", "pid", "reason")
SETTLE_FAILED = _event(
    "settle.failed",
    logging.ERROR,
    "settlements were given up; their jobs run again",
    "count",
    "reason",
)
LOCK_LOST = _event(
    "lock.lost",
    logging.WARNING,
    "another job has the single-instance lock; the attempt is stopped",
    "job_id",
    "type",
)
RESERVE_PAUSED = _event(
    "reserve.paused",
    logging.ERROR,
    "many jobs in a row had a bad signature: this worker reserves nothing for a while",
    "worker",
    "duration",
    "reason",
)
DOMAIN_HALTED = _event(
    "domain.halted",
    logging.ERROR,
    "a dead job has halted its domain, and its queue waits for an operator; each worker of the queue logs it once",
    "queue",
    "domain",
    "job_id",
)
DOMAIN_GAP = _event(
    "domain.gap",
    logging.WARNING,
    "a domain waits for a missing offset for longer than `gap_report_after`; each worker of the queue logs it once",
    "queue",
    "domain",
    "offset",
)
DOMAIN_RESUMED = _event(
    "domain.resumed",
    logging.WARNING,
    "an operator let a domain go on; the reason is `resume`, `skip` or `retry`. Logged by the client",
    "queue",
    "domain",
    "reason",
    "position",
    logger="holdfast.domains",
)
DOMAIN_FORGOTTEN = _event(
    "domain.forgotten",
    logging.WARNING,
    "an operator removed the ended offsets of a domain. Logged by the client",
    "queue",
    "domain",
    logger="holdfast.domains",
)
SECRETS_EXPOSED = _event(
    "secrets.exposed",
    logging.WARNING,
    "others than its owner can read or write a file with tokens or secrets; logged by each process that reads it",
    "file",
    "mode",
    logger="holdfast.secrets",
)
JOB_SIGNED_AGAIN = _event(
    "job.signed_again",
    logging.WARNING,
    "an operator has reviewed the dead letter, and signed the job as it is; logged by the client",
    "job_id",
    "type",
    "queue",
    "signed_by",
    "reason",
    logger="holdfast.signing",
)
HEARTBEAT_FAILED = _event("heartbeat.failed", logging.ERROR, "an unexpected exception; the next heartbeat is tried")
CANCEL_WATCH_FAILED = _event(
    "cancel_watch.failed", logging.ERROR, "an unexpected exception; cancels come with the next heartbeat"
)
MAINTENANCE_FAILED = _event(
    "maintenance.failed",
    logging.WARNING,
    "expired leases or old rows were not removed this time",
    "task",
    "reason",
    "space",
)
STORE_LACKS = _event(
    "store.lacks",
    logging.INFO,
    "the store lacks groups of requests or fields, and the worker does without them: the reason lists them",
    "worker",
    "reason",
)
RETENTION_DIFFERS = _event(
    "retention.differs",
    logging.WARNING,
    "the space has another retention than the settings",
    "settings",
    "store",
    "space",
)
LIMITS_DIFFER = _event(
    "limits.differ",
    logging.WARNING,
    "the store has other limits than the settings or the handler propose: an operator, or the settings, set them",
    "queue",
    "type",
    "settings",
    "store",
    "reason",
)
ORDER_DIFFERS = _event(
    "order.differs",
    logging.WARNING,
    "the store has another order of a queue than the settings; `holdfast queue order` changes it",
    "queue",
    "settings",
    "store",
)
BREAKER_OPENED = _event(
    "breaker.opened",
    logging.ERROR,
    "no worker reserves jobs of this type in this queue until the delay is over",
    "queue",
    "type",
    "worker",
    "delay",
    "reason",
)
BREAKER_HALF_OPEN = _event(
    "breaker.half_open",
    logging.WARNING,
    "the delay is over, and this worker runs one job of the type",
    "queue",
    "type",
    "worker",
    "job_id",
)
BREAKER_CLOSED = _event(
    "breaker.closed", logging.WARNING, "jobs of the type are reserved again", "queue", "type", "worker", "reason"
)
BREAKER_FAILED = _event(
    "breaker.failed",
    logging.WARNING,
    "the store could not be told to open or close a breaker, or to pause a type",
    "worker",
    "reason",
)
TYPE_PAUSED = _event(
    "type.paused",
    logging.WARNING,
    "a handler asked with `Retry(pause_type=True)` that no worker reserves its type until the delay is over",
    "queue",
    "type",
    "worker",
    "delay",
)
RETRY_UNREADABLE = _event(
    "retry.unreadable", logging.WARNING, "the retry policy of a job cannot be read, and is skipped", "reason"
)
RESOURCE_CLOSE_FAILED = _event(
    "resource.close_failed", logging.ERROR, "a resource could not be closed", "resource", "reason"
)
OBSERVER_FAILED = _event(
    "observer.failed",
    logging.ERROR,
    "an observer raised an exception; later ones are logged every ten seconds",
    "observer",
    "reason",
    "failures",
)
PRESENCE_FAILED = _event("presence.failed", logging.ERROR, "an unexpected exception; the next entry is tried", "worker")
METRICS_FAILED = _event(
    "metrics.failed",
    logging.ERROR,
    "the collector of metrics raised an exception; later ones are logged every ten seconds",
    "reason",
    "failures",
)
ENDPOINT_STARTED = _event("endpoint.started", logging.INFO, "the worker answers scrapers and probes", "worker", "url")
ENDPOINT_FAILED = _event("endpoint.failed", logging.ERROR, "a request of a scraper or a probe failed", "path")
HTTP_STARTED = _event("http.started", logging.INFO, "the HTTP service answers", "url", "auth")
HTTP_UNANSWERED = _event(
    "http.unanswered", logging.WARNING, "the HTTP service ends, and the store has not answered some calls"
)
HTTP_STOPPED = _event("http.stopped", logging.INFO, "the HTTP service has answered its last request")
HTTP_FAILED = _event(
    "http.failed",
    logging.ERROR,
    "a request of the HTTP service failed unexpectedly; its answer was 500",
    "operation",
    "request_id",
)
HTTP_FEW_FILES = _event(
    "http.few_files",
    logging.WARNING,
    "the limit of open files allows fewer connections than `serve_max_requests` wants: four for each request",
    "connections",
    "wanted",
)
HTTP_NO_FILES = _event(
    "http.no_files",
    logging.ERROR,
    "no file was free for a connection; once a minute",
    "reason",
    "failures",
)
HTTP_TOKEN_REFUSED = _event(
    "http.token_refused",
    logging.WARNING,
    "the HTTP service refused tokens for this reason; once a minute for each reason",
    "reason",
    "refused",
)
HTTP_ISSUER_FAILED = _event(
    "http.issuer_failed",
    logging.WARNING,
    "the issuer of tokens failed; once a minute. Requests whose tokens it would check are 503",
    "setting",
    "reason",
    "failures",
)
ARTIFACTS_FULL = _event(
    "artifacts.full",
    logging.ERROR,
    "the disk of the artifacts is full, and uploads are 507; later ones are logged every ten seconds",
    "reason",
    "failures",
)
HTTP_OPERATOR = _event(
    "http.operator",
    logging.INFO,
    "an operator changed something over HTTP",
    "operation",
    "subject",
    "space",
    "target",
    "domain",
    "status",
    "request_id",
)

# Callbacks and notifications --------------------------------------------------------------------------------

_DELIVERY = ("job_id", "type", "space", "attempt")
WEBHOOK_DELIVERED = _event("webhook.delivered", logging.DEBUG, "the receiver has accepted a callback", *_DELIVERY)
WEBHOOK_FAILED = _event(
    "webhook.failed", logging.INFO, "a callback was not accepted; it is sent again", *_DELIVERY, "reason"
)
WEBHOOK_DEAD = _event("webhook.dead", logging.WARNING, "a callback is given up: a dead letter", *_DELIVERY, "reason")
WEBHOOK_UNSETTLED = _event(
    "webhook.unsettled",
    logging.WARNING,
    "the store did not learn what became of a delivery, which is sent again",
    "job_id",
    "reason",
)
WEBHOOK_UNNOTIFIED = _event(
    "webhook.unnotified",
    logging.INFO,
    "a worker was not told of work; others of its group or hash are told instead",
    "space",
    "subscription",
    "reason",
)
WEBHOOK_REJECTED = _event(
    "webhook.rejected",
    logging.WARNING,
    "a job has ended, and its webhook is not called: its signature is bad",
    "job_id",
    "type",
    "reason",
)
WEBHOOK_MISSED = _event(
    "webhook.missed",
    logging.ERROR,
    "ends of jobs were removed before their webhooks were called",
    "space",
    "reason",
)
WEBHOOK_PAUSED = _event(
    "webhook.paused",
    logging.WARNING,
    "the store does not answer: nothing is delivered until it does",
    "space",
    "reason",
)

# Schedules ------------------------------------------------------------------------------------------------

SCHEDULE_FIRED = _event(
    "schedule.fired",
    logging.INFO,
    "a schedule has fired, and its job is stored",
    "schedule",
    "fire",
    "type",
    "job_id",
    "queue",
    "late",
    "reason",
    "scheduler",
)
SCHEDULE_DROPPED = _event(
    "schedule.dropped",
    logging.WARNING,
    "a fire that was due does not become a job: a dependency failed inline, or no scheduler may fire it",
    "schedule",
    "type",
    "scheduler",
    "fire",
    "reason",
)
SCHEDULE_MISSED = _event(
    "schedule.missed",
    logging.WARNING,
    "fires were later than the grace time, and are left out; `fire` is the first one",
    "schedule",
    "type",
    "scheduler",
    "count",
    "or_more",
    "fire",
    "reason",
)
SCHEDULE_CHANGED = _event(
    "schedule.changed",
    logging.WARNING,
    "the definition of a schedule has changed: it starts from now",
    "schedule",
    "type",
    "scheduler",
    "reason",
)
SCHEDULE_UNDECLARED = _event(
    "schedule.undeclared",
    logging.WARNING,
    "a schedule is overdue, and no scheduler whose code has it is running: it does not fire until one is",
    "schedule",
    "scheduler",
)
SCHEDULE_FAILED = _event(
    "schedule.failed",
    logging.ERROR,
    "a schedule could not be fired; it is tried again a minute later",
    "schedule",
    "reason",
    "scheduler",
)
SCHEDULER_WAITING = _event(
    "scheduler.waiting",
    logging.WARNING,
    "the store does not answer; nothing fires until it does, then fires that were missed follow their policy",
    "reason",
    "scheduler",
)
SCHEDULER_FAILED = _event(
    "scheduler.failed", logging.ERROR, "an unexpected exception; the next tick is tried", "scheduler"
)

EVENTS = tuple(one for one in tuple(vars().values()) if isinstance(one, Event))
