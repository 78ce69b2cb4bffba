"""``JobBatch``: many new jobs that differ only in id, payload and idempotency key.

To a driver, a batch is a sequence of records. A driver that recognises the class can work on whole columns instead:
building, checking and unpacking one record takes some microseconds, about as long as storing it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import overload

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.fast_construction import compile_packer, compile_reader
from holdfast.model.isolation import is_isolated
from holdfast.model.job import JobRecord, State, check_new
from holdfast.model.lease import Reservation, make_reservation

_OWN_FIELDS = ("id", "payload", "idempotency_key")
_SHARED_FIELDS = tuple(name for name in JobRecord.__slots__ if name not in _OWN_FIELDS)
_pack_shared = compile_packer(_SHARED_FIELDS)
_make_record = compile_reader(JobRecord, _SHARED_FIELDS, arguments=_OWN_FIELDS)


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
        bounds.check_new_names("id", self.ids)
        bounds.check_blobs("payload", self.payloads, most=bounds.MAX_STORED_PAYLOAD_BYTES)
        bounds.check_optional_texts("idempotency_key", self.keys or ())

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
    """Whether one of the jobs cannot be leased while it is stored: it has a domain, a ``run_at`` or one attempt."""
    return any(
        job.domain is not None
        or job.run_at is not None
        or is_isolated(suspect=False, crashes=job.crashes, attempts=job.attempts, max_attempts=job.max_attempts)
        for job in representatives(jobs)
    )


def lease_batch(
    jobs: Sequence[JobRecord], fences: Sequence[int], tokens: Sequence[str], expires_at: int
) -> list[Reservation]:
    """Return the reservations of jobs that are leased while they are stored, with the first attempt counted."""
    return [
        make_reservation(job, token, fence, expires_at)
        for job, fence, token in zip(_count_attempt(jobs), fences, tokens, strict=True)
    ]


def _count_attempt(jobs: Sequence[JobRecord]) -> Sequence[JobRecord]:
    if isinstance(jobs, JobBatch):
        return JobBatch(_count_attempt_of(jobs.template), jobs.ids, jobs.payloads, jobs.keys)
    return [_count_attempt_of(job) for job in jobs]


def _count_attempt_of(job: JobRecord) -> JobRecord:
    return replace(job, state=State.INFLIGHT, attempts=job.attempts + 1)


def _records(
    template: JobRecord, ids: Sequence[str], payloads: Sequence[bytes], keys: Sequence[str | None] | repeat[None]
) -> Iterator[JobRecord]:
    shared = _pack_shared(template)
    for job_id, payload, key in zip(ids, payloads, keys, strict=False):  # ``repeat(None)`` has no end
        yield _make_record(shared, job_id, payload, key)
