"""The job of one fire: the same id, key and start on every node, so that it is stored once however often it is sent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from msgspec.structs import replace
from uuid_utils import uuid7

from holdfast.clock import MILLISECOND, to_datetime
from holdfast.cron.schedule import Schedule
from holdfast.model.definition import JobDefinition
from holdfast.model.job import JobRecord
from holdfast.model.request import DEFAULT_QUEUE, RESERVED_META, JobRequest

if TYPE_CHECKING:
    from holdfast.app import Holdfast

META_SCHEDULE = f"{RESERVED_META}schedule"  # the name of the schedule
META_FIRE = f"{RESERVED_META}fire"  # the instant of the fire, as text in UTC
META_TRIGGER = f"{RESERVED_META}trigger"  # true for a job that ``trigger`` enqueued
INLINE_QUEUE = "cron.inline"  # of the jobs that ``CronRunner.run`` runs itself

_UUID7_RANDOM_BITS = 74
_UUID7_VERSION = 7 << 76
_UUID7_VARIANT = 2 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class FireJob:
    """A job that a scheduler enqueues. ``fire`` is an instant in microseconds."""

    schedule: Schedule
    fire: int
    job_id: str
    request: JobRequest
    marks: Mapping[str, object]  # meta values under keys that Holdfast reserves

    @property
    def is_trigger(self) -> bool:
        """Whether it is no fire of the schedule."""
        return META_TRIGGER in self.marks

    def adapt(self, record: JobRecord) -> JobRecord:
        """Return the record of the request with this id and these marks."""
        return replace(record, id=self.job_id, meta={**record.meta, **self.marks})


def fire_text(fire: int) -> str:
    """Return the instant of a fire as text: ``2027-03-28T01:00:00Z``."""
    return f"{to_datetime(fire):%Y-%m-%dT%H:%M:%SZ}"


def fire_id(schedule: Schedule, fire: int) -> str:
    """Return the job id of a fire: a UUID of version 7 with the time of the fire, and a hash in place of random bits.

    A second enqueue of the same fire finds the first one by its id as long as the job is kept, also after the window of
    its idempotency key.
    """
    digest = hashlib.sha256(schedule.fire_key(to_datetime(fire)).encode()).digest()
    bits = int.from_bytes(digest) >> (len(digest) * 8 - _UUID7_RANDOM_BITS)
    high, low = bits >> 62, bits & (1 << 62) - 1
    return str(UUID(int=fire // MILLISECOND << 80 | _UUID7_VERSION | high << 64 | _UUID7_VARIANT | low))


def fire_job(app: Holdfast, schedule: Schedule, fire: int, *, inline: bool = False, at_once: bool = False) -> FireJob:
    """Return the job of a fire. ``inline``: one attempt that this process runs. ``at_once``: it does not wait."""
    at = to_datetime(fire)
    keywords: dict[str, Any] = {"idempotency_key": schedule.fire_key(at)}
    if inline:
        keywords |= {"queue": INLINE_QUEUE, "max_attempts": 1}
    elif not at_once:
        keywords["run_at"] = schedule.run_at(at)
    return FireJob(
        schedule=schedule,
        fire=fire,
        job_id=fire_id(schedule, fire),
        request=_request(app, schedule, keywords),
        marks=_marks(schedule, fire),
    )


def trigger_job(app: Holdfast, schedule: Schedule, now: int) -> FireJob:
    """Return a job of a schedule beside its fires. Two triggers in one microsecond are one job."""
    request = _request(app, schedule, {"idempotency_key": f"cron:{schedule.name}:trigger:{now}"})
    marks = {**_marks(schedule, now), META_TRIGGER: True}
    return FireJob(schedule=schedule, fire=now, job_id=str(uuid7()), request=request, marks=marks)


def _marks(schedule: Schedule, fire: int) -> dict[str, object]:
    return {META_SCHEDULE: schedule.name, META_FIRE: fire_text(fire)}


def adapt_all(jobs: Sequence[FireJob], records: Sequence[JobRecord]) -> list[JobRecord]:
    """Return the records of these jobs, as ``FireJob.adapt`` changes them."""
    return [job.adapt(record) for job, record in zip(jobs, records, strict=True)]


def _request(app: Holdfast, schedule: Schedule, keywords: dict[str, Any]) -> JobRequest:
    # A handler with ``unique`` would give the key its own lifetime: the key of a fire is taken for the whole window.
    limit_key = _limit_key(app, schedule.type, schedule.payload)
    fields = {"limit_key": limit_key, **schedule.request_keywords(), **keywords, "unique": None}
    return _definition(app, schedule.type).request(schedule.payload, **fields)


def _limit_key(app: Holdfast, type_: str, payload: object) -> str | None:
    """Return the limit key that the handler gives a job; None if it has none for this payload: the attempt says why."""
    task = app.tasks.get(type_)
    if task is None:
        return None
    try:
        return task.limit_key_of(payload)
    except Exception:  # noqa: BLE001 - a function of the user; a schedule fires all the same
        return None


def _definition(app: Holdfast, type_: str) -> JobDefinition:
    """Return what the handler of a type says; the defaults of the settings if another app has the handler."""
    task = app.tasks.get(type_)
    if task is not None:
        return task.definition
    settings = app.settings
    return JobDefinition(type=type_, queue=DEFAULT_QUEUE, max_attempts=settings.max_attempts, timeout=settings.timeout)
