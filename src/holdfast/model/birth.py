"""Jobs that are leased as they are stored: whoever brings them works on them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from holdfast.model.alike import Alike
from holdfast.model.draft import draft_of
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease, Reservation

_LeaseDraft = draft_of(Lease)
_ReservationDraft = draft_of(Reservation)


def stand_in_line(jobs: Sequence[JobRecord]) -> bool:
    """Whether some of them have to wait for their turn or their time."""
    kinds = jobs[:1] if isinstance(jobs, Alike) else jobs
    return any(job.domain is not None or job.run_at is not None for job in kinds)


def leased(
    jobs: Sequence[JobRecord], fences: Sequence[int], proofs: Sequence[str], expires_at: int
) -> list[Reservation]:
    """What a reserve of just these would have given: the first attempt of each has begun."""
    found = []
    for job, fence, token in zip(_begun(jobs), fences, proofs, strict=True):
        lease = _LeaseDraft()
        lease.job_id, lease.token, lease.fence, lease.expires_at = job.id, token, fence, expires_at
        lease.cancel_requested = False
        lease.__class__ = Lease
        made = _ReservationDraft()
        made.job, made.lease, made.checkpoint = job, lease, None
        made.__class__ = Reservation
        found.append(cast("Reservation", made))
    return found


def _begun(jobs: Sequence[JobRecord]) -> Sequence[JobRecord]:
    if isinstance(jobs, Alike):
        return Alike(_begin(jobs.like), jobs.ids, jobs.payloads, jobs.keys)
    return [_begin(job) for job in jobs]


def _begin(job: JobRecord) -> JobRecord:
    return replace(job, state=State.INFLIGHT, attempts=job.attempts + 1)
