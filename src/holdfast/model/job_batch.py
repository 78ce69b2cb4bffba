"""``JobBatch``: many new jobs that differ only in id, payload, idempotency key and signature.

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

_OWN_FIELDS = ("id", "payload", "idempotency_key", "signature")
_SHARED_FIELDS = tuple(name for name in JobRecord.__slots__ if name not in _OWN_FIELDS)
_pack_shared = compile_packer(_SHARED_FIELDS)
_make_record = compile_reader(JobRecord, _SHARED_FIELDS, arguments=_OWN_FIELDS)


class JobBatch(Sequence[JobRecord]):
    """One record per id: ``template`` with that id, its payload, and its key and signature if they are given."""

    __slots__ = ("ids", "keys", "payloads", "signatures", "template")

    def __init__(
        self,
        template: JobRecord,
        ids: Sequence[str],
        payloads: Sequence[bytes],
        keys: Sequence[str | None] | None = None,
        signatures: Sequence[str | None] | None = None,
    ) -> None:
        """Ignores the id and the payload of ``template``."""
        for name, column, shared in (
            ("keys", keys, template.idempotency_key),
            ("signatures", signatures, template.signature),  # a signature covers the id and the payload
        ):
            if column is None and shared is not None:
                raise InvalidInput(name, wanted="one for each payload", got="one for all")
        for name, values in (("payloads", payloads), ("keys", keys), ("signatures", signatures)):
            if values is not None and len(values) != len(ids):
                raise InvalidInput(name, wanted=f"as many as ids, {len(ids)}", got=str(len(values)))
        self.template = template
        self.ids = ids
        self.payloads = payloads
        self.keys = keys
        self.signatures = signatures

    def check(self) -> None:
        """Check every record as ``check_new`` does, column by column."""
        if not self.ids:
            return
        check_new(self[0])
        bounds.check_new_names("id", self.ids)
        bounds.check_blobs("payload", self.payloads, most=bounds.MAX_STORED_PAYLOAD_BYTES)
        bounds.check_optional_texts("idempotency_key", self.keys or ())
        bounds.check_optional_texts("signature", self.signatures or ())

    def with_signatures(self, signatures: Sequence[str | None] | None) -> JobBatch:
        """Return the same jobs with these signatures."""
        return JobBatch(self.template, self.ids, self.payloads, self.keys, signatures)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> JobRecord: ...
    @overload
    def __getitem__(self, place: slice) -> JobBatch: ...

    def __getitem__(self, place: int | slice) -> JobRecord | JobBatch:
        if isinstance(place, slice):
            return JobBatch(
                self.template,
                self.ids[place],
                self.payloads[place],
                None if self.keys is None else self.keys[place],
                None if self.signatures is None else self.signatures[place],
            )
        key = self.keys[place] if self.keys else None
        signature = self.signatures[place] if self.signatures else None
        return _make_record(_pack_shared(self.template), self.ids[place], self.payloads[place], key, signature)

    def __iter__(self) -> Iterator[JobRecord]:
        shared = _pack_shared(self.template)
        keys = repeat(None) if self.keys is None else self.keys
        signatures = repeat(None) if self.signatures is None else self.signatures
        for job_id, payload, key, signature in zip(
            self.ids,
            self.payloads,
            keys,
            signatures,
            strict=False,  # ``repeat(None)`` has no end
        ):
            yield _make_record(shared, job_id, payload, key, signature)


def representatives(jobs: Sequence[JobRecord]) -> Sequence[JobRecord]:
    """One representative record per job shape: the records differ at most in id, payload, key and signature."""
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
        return JobBatch(_count_attempt_of(jobs.template), jobs.ids, jobs.payloads, jobs.keys, jobs.signatures)
    return [_count_attempt_of(job) for job in jobs]


def _count_attempt_of(job: JobRecord) -> JobRecord:
    return replace(job, state=State.INFLIGHT, attempts=job.attempts + 1)
