"""Jobs that are leased as they are stored: whoever brings them works on them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.model.alike import Alike, kinds
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Reservation, reserved


def stand_in_line(jobs: Sequence[JobRecord]) -> bool:
    """Whether some of them have to wait for their turn or their time."""
    return any(job.domain is not None or job.run_at is not None for job in kinds(jobs))


def leased(
    jobs: Sequence[JobRecord], fences: Sequence[int], proofs: Sequence[str], expires_at: int
) -> list[Reservation]:
    """What a reserve of just these would have given: the first attempt of each has begun."""
    begun = zip(_begun(jobs), fences, proofs, strict=True)
    return [reserved(job, token, fence, expires_at) for job, fence, token in begun]


def _begun(jobs: Sequence[JobRecord]) -> Sequence[JobRecord]:
    if isinstance(jobs, Alike):
        return Alike(_begin(jobs.like), jobs.ids, jobs.payloads, jobs.keys)
    return [_begin(job) for job in jobs]


def _begin(job: JobRecord) -> JobRecord:
    return replace(job, state=State.INFLIGHT, attempts=job.attempts + 1)
