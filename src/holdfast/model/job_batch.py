"""``JobBatch``: many new jobs that differ only in id, payload and idempotency key.

To a driver, a batch is a sequence of records like any other. A driver that recognises the class can work on whole
columns instead: one record costs some microseconds to build, check and unpack, about as much as storing it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from operator import attrgetter
from typing import cast, overload

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.fast_construction import mutable_twin
from holdfast.model.job import JobRecord, State, check_new
from holdfast.model.lease import Reservation, make_reservation

_JobDraft = mutable_twin(JobRecord)
_OWN = frozenset({"id", "payload", "idempotency_key"})
_shared = attrgetter(*(name for name in JobRecord.__slots__ if name not in _OWN))


class JobBatch(Sequence[JobRecord]):
    """One record per id: ``template`` with that id, its payload and its key, if ``keys`` are given."""

    __slots__ = ("ids", "keys", "payloads", "template")

    def __init__(
        self,
        template: JobRecord,
        ids: Sequence[str],
        payloads: Sequence[bytes],
        keys: Sequence[str | None] | None = None,
    ) -> None:
        """Ignores the id and the payload of ``template``."""
        if keys is None and template.idempotency_key is not None:
            raise InvalidInput("keys", wanted="one for each payload", got="one for all")
        for name, column in (("payloads", payloads), ("keys", keys)):
            if column is not None and len(column) != len(ids):
                raise InvalidInput(name, wanted=f"as many as ids, {len(ids)}", got=str(len(column)))
        self.template = template
        self.ids = ids
        self.payloads = payloads
        self.keys = keys

    def check(self) -> None:
        """Check every record as ``check_new`` does, column by column."""
        if not self.ids:
            return
        check_new(self[0])
        bounds.new_names("id", self.ids)
        bounds.blobs("payload", self.payloads, most=bounds.MAX_STORED_PAYLOAD)
        bounds.optional_texts("idempotency_key", self.keys or ())

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> JobRecord: ...
    @overload
    def __getitem__(self, place: slice) -> JobBatch: ...

    def __getitem__(self, place: int | slice) -> JobRecord | JobBatch:
        keys = self.keys
        if isinstance(place, slice):
            part = None if keys is None else keys[place]
            return JobBatch(self.template, self.ids[place], self.payloads[place], part)
        [record] = _records(self.template, [self.ids[place]], [self.payloads[place]], [keys[place] if keys else None])
        return record

    def __iter__(self) -> Iterator[JobRecord]:
        return _records(self.template, self.ids, self.payloads, repeat(None) if self.keys is None else self.keys)


def representatives(jobs: Sequence[JobRecord]) -> Sequence[JobRecord]:
    """One representative record per job shape: the records differ at most in id, payload and key."""
    return jobs[:1] if isinstance(jobs, JobBatch) else jobs


def must_wait(jobs: Sequence[JobRecord]) -> bool:
    """Whether a job of these cannot be leased as it is stored: it has a domain, or a ``run_at``."""
    return any(job.domain is not None or job.run_at is not None for job in representatives(jobs))


def lease_batch(
    jobs: Sequence[JobRecord], fences: Sequence[int], tokens: Sequence[str], expires_at: int
) -> list[Reservation]:
    """The reservations of jobs that are leased as they are stored, each with its first attempt counted."""
    leased = zip(_inflight(jobs), fences, tokens, strict=True)
    return [make_reservation(job, token, fence, expires_at) for job, fence, token in leased]


def _inflight(jobs: Sequence[JobRecord]) -> Sequence[JobRecord]:
    if isinstance(jobs, JobBatch):
        return JobBatch(_counted(jobs.template), jobs.ids, jobs.payloads, jobs.keys)
    return [_counted(job) for job in jobs]


def _counted(job: JobRecord) -> JobRecord:
    return replace(job, state=State.INFLIGHT, attempts=job.attempts + 1)


def _records(
    template: JobRecord, ids: Sequence[str], payloads: Sequence[bytes], keys: Sequence[str | None] | repeat[None]
) -> Iterator[JobRecord]:
    shared = _shared(template)
    for job_id, payload, key in zip(ids, payloads, keys, strict=False):  # ``repeat(None)`` has no end
        job = _JobDraft()
        job.id = job_id
        job.payload = payload
        job.idempotency_key = key
        (  # in the order of ``_shared``; unrolled, because a loop over names costs eight times as much
            job.type,
            job.queue,
            job.priority,
            job.run_at,
            job.timeout,
            job.created_at,
            job.attempts,
            job.max_attempts,
            job.crashes,
            job.max_crashes,
            job.domain,
            job.offset,
            job.name,
            job.meta,
            job.webhook,
            job.signature,
            job.state,
            job.last_error,
            job.failed_at,
            job.dead_reason,
            job.dead_at,
            job.result,
            job.requested_run_at,
        ) = shared
        job.__class__ = JobRecord
        yield cast("JobRecord", job)
