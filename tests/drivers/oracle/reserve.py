"""Reserve: order, domains, limits and leases (L3, L4, L7, L10, L11)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from fractions import Fraction

from msgspec.structs import replace

from holdfast.clock import SECOND
from holdfast.model.isolation import Isolation
from holdfast.model.job import State
from holdfast.model.lease import Lease, Reservation
from holdfast.model.queue_settings import QueueSettings
from tests.drivers.oracle.domains import has_turn
from tests.drivers.oracle.state import OracleJob, OracleState, SettingsKey


def reserve(
    state: OracleState,
    queues: Sequence[str],
    *,
    limit: int,
    lease_for: int,
    worker: str,
    types: Collection[str] | None,
    max_bytes: int | None,
    isolation: Isolation,
    prefetch: bool,
    now: int,
) -> list[Reservation]:
    """Lease the first jobs in order that are due, have the turn of their domain and fit the limits (L3)."""
    candidates = [
        job
        for job in state.jobs.values()
        if job.state is State.READY
        and job.record.queue in queues
        and (types is None or job.record.type in types)
        and job.available_at <= now
        and has_turn(state, job)
    ]
    candidates.sort(key=lambda job: (-job.record.priority, job.available_at, job.seq))  # L10
    reservations: list[Reservation] = []
    size = 0
    for job in candidates:
        if len(reservations) == limit or not has_capacity(state, job, now) or is_key_full(state, job, now):
            continue
        alone = isolation is not Isolation.SHARE and must_run_alone(job)
        if alone and isolation is Isolation.SKIP:
            continue
        if alone and (reservations or isolation is Isolation.STOP):
            break
        size += len(job.record.payload)
        if reservations and max_bytes is not None and size > max_bytes:
            break
        reservations.append(lease_job(state, job, now + lease_for, worker, now, prefetch=prefetch and not alone))
        if alone:
            break
    return reservations


def must_run_alone(job: OracleJob) -> bool:
    """Whether a ready job is a suspect or has crashed (L7)."""
    return job.is_suspect or job.record.crashes > 0


def _limits(state: OracleState, job: OracleJob) -> list[tuple[SettingsKey, QueueSettings]]:
    keys: list[SettingsKey] = [(job.record.queue, None), (job.record.queue, job.record.type)]
    return [(key, state.settings[key]) for key in keys if key in state.settings]


def has_capacity(state: OracleState, job: OracleJob, now: int) -> bool:
    """Whether the settings of the queue and of the type allow one more job."""
    for (queue, type_), settings in _limits(state, job):
        inflight = [
            other
            for other in state.jobs.values()
            if other.state is State.INFLIGHT and other.record.queue == queue and type_ in (None, other.record.type)
        ]
        if settings.paused_until is not None and now < settings.paused_until:
            return False
        if settings.held_until is not None and now < settings.held_until:
            return False
        if settings.probing and inflight:
            return False
        if settings.max_inflight is not None and len(inflight) >= settings.max_inflight:
            return False
        if settings.rate is not None and _rate_level(state.rate_buckets.get((queue, type_)), settings, now) < 1:
            return False
    return True


def is_key_full(state: OracleState, job: OracleJob, now: int) -> bool:
    """Whether the limit key of the job is held, or has as many jobs as the key limits of the queue allow."""
    if job.record.limit_key is None:
        return False
    place = job.record.queue, job.record.limit_key
    if now < state.key_holds.get(place, now):
        return True
    settings = _key_settings(state, job)
    inflight = [
        other
        for other in state.jobs.values()
        if other.state is State.INFLIGHT and (other.record.queue, other.record.limit_key) == place
    ]
    if settings.max_inflight is not None and len(inflight) >= settings.max_inflight:
        return True
    return settings.rate is not None and _rate_level(state.key_buckets.get(place), settings, now) < 1


def _key_settings(state: OracleState, job: OracleJob) -> QueueSettings:
    """Return the key limits of the job's queue as the settings of one key."""
    queue = state.settings.get((job.record.queue, None), QueueSettings())
    return QueueSettings(max_inflight=queue.key_max_inflight, rate=queue.key_rate, burst=queue.key_burst)


def _rate_level(bucket: tuple[Fraction, int] | None, settings: QueueSettings, now: int) -> Fraction:
    """Return how many jobs the rate allows now: the burst, plus the fraction of a job by which a reserve is late."""
    assert settings.rate is not None
    burst = Fraction(settings.burst if settings.burst is not None else max(1, math.ceil(settings.rate)))
    level, since = bucket or (burst, now)
    level += max(0, now - since) * Fraction(settings.rate) / SECOND
    return level if level < burst + 1 else burst


def lease_job(
    state: OracleState, job: OracleJob, expires_at: int, worker: str, now: int, *, prefetch: bool
) -> Reservation:
    """Lease a ready job, and count it against the rates."""
    for key, settings in _limits(state, job):
        if settings.rate is not None:
            state.rate_buckets[key] = (_rate_level(state.rate_buckets.get(key), settings, now) - 1, now)
    of_key = _key_settings(state, job)
    if job.record.limit_key is not None and of_key.rate is not None:
        place = job.record.queue, job.record.limit_key
        state.key_buckets[place] = (_rate_level(state.key_buckets.get(place), of_key, now) - 1, now)
    fence = state.next_number()
    lease = Lease(job_id=job.record.id, token=f"{fence}.oracle", fence=fence, expires_at=expires_at)
    isolated = must_run_alone(job)
    job.record = replace(job.record, state=State.INFLIGHT, attempts=job.record.attempts + 1)  # L7
    job.lease, job.worker, job.reserved_at, job.is_prefetched = lease, worker, now, prefetch
    return Reservation(job=job.record, lease=lease, checkpoint=job.checkpoint, isolated=isolated)
