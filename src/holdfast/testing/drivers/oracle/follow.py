"""Settle and reserve: which jobs may be leased with the settlements of others (L11).

A driver may lease fewer jobs than it could. So the oracle does not choose: it checks the jobs that the driver chose.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.model.isolation import Isolation
from holdfast.model.job import State
from holdfast.model.lease import Reservation
from holdfast.testing.drivers.oracle.domains import has_turn
from holdfast.testing.drivers.oracle.reserve import has_capacity, is_key_full, lease_job, must_run_alone
from holdfast.testing.drivers.oracle.state import OracleJob, OracleState, Place


def lease_next(
    state: OracleState,
    ended: Sequence[Place],
    leased: Sequence[str],
    *,
    queues: Sequence[str],
    lease_for: int,
    worker: str,
    types: Collection[str] | None,
    max_bytes: int | None,
    isolation: Isolation,
    now: int,
) -> list[Reservation]:
    """Lease these jobs, of the domains in which jobs have ended. Raises ``AssertionError`` if one may not be leased."""
    reservable = [
        job
        for job in state.jobs.values()
        if job.state is State.READY and job.record.queue in queues and (types is None or job.record.type in types)
        if job.available_at <= now and has_turn(state, job)
    ]
    highest = max((job.record.priority for job in reservable if _is_visible(state, job, now)), default=0)
    jobs = [state.jobs[job_id] for job_id in leased]
    places = [job.place for job in jobs]
    assert places == [place for place in ended if place in places], f"wanted jobs of {ended} in order, got {places}"
    size = sum(len(job.record.payload) for job in jobs)
    assert len(jobs) < 2 or max_bytes is None or size <= max_bytes, f"wanted at most {max_bytes} bytes, got {size}"
    reservations = []
    for job in jobs:
        job_id, priority = job.record.id, job.record.priority
        assert job in reservable, f"{job_id} is not due, has no turn, or is of another queue or type"
        assert priority >= highest, f"{job_id} has the priority {priority}, and a job of {highest} is due"
        assert isolation is Isolation.SHARE or not must_run_alone(job), f"{job_id} must run alone"
        assert has_capacity(state, job, now), f"{job_id} is beyond the limits of its queue"
        assert not is_key_full(state, job, now), f"{job_id} is beyond the limits of its key"
        reservations.append(lease_job(state, job, now + lease_for, worker, now, prefetch=False))
    return reservations


def _is_visible(state: OracleState, job: OracleJob, now: int) -> bool:
    """Whether a job must keep others of a lower priority from being leased.

    A store need not know that a job has the turn before a reserve has looked at its domain.
    """
    return job.place not in state.arrived and has_capacity(state, job, now) and not is_key_full(state, job, now)
