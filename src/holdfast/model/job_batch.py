"""``JobBatch``: many new jobs that differ only in id, payload, idempotency key, signature and limit key.

To a driver, a batch is a sequence of records. A driver that recognises the class can work on whole columns instead:
building, checking and unpacking one record takes some microseconds, about as long as storing it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import overload

from msgspec.structs import replace

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State, check_new
from holdfast.model.lease import Reservation, make_reservation


class JobBatch(Sequence[JobRecord]):
    """One record per id: ``template`` with that id, its payload, and its key and signature if they are given.

    The limit keys are those of ``limit_keys``; without them, every job has the one of ``template``.
    """

    __slots__ = ("ids", "keys", "limit_keys", "payloads", "signatures", "template")

    def __init__(
        self,
        template: JobRecord,
        ids: Sequence[str],
        payloads: Sequence[bytes],
        keys: Sequence[str | None] | None = None,
        signatures: Sequence[str | None] | None = None,
        *,
        limit_keys: Sequence[str | None] | None = None,
    ) -> None:
        """Ignores the id and the payload of ``template``."""
        for name, column, shared in (
            ("keys", keys, template.idempotency_key),
            ("signatures", signatures, template.signature),  # a signature covers the id and the payload
        ):
            if column is None and shared is not None:
                raise InvalidInput(name, wanted="one for each payload", got="one for all")
        columns = {"payloads": payloads, "keys": keys, "signatures": signatures, "limit_keys": limit_keys}
        for name, values in columns.items():
            if values is not None and len(values) != len(ids):
                raise InvalidInput(name, wanted=f"as many as ids, {len(ids)}", got=str(len(values)))
        self.template = template
        self.ids = ids
        self.payloads = payloads
        self.keys = keys
        self.signatures = signatures
        self.limit_keys = limit_keys

    def check(self) -> None:
        """Check every record as ``check_new`` does, column by column."""
        if not self.ids:
            return
        check_new(self[0])
        bounds.check_new_names("id", self.ids)
        bounds.check_blobs("payload", self.payloads, most=bounds.MAX_STORED_PAYLOAD_BYTES)
        bounds.check_optional_texts("idempotency_key", self.keys or ())
        bounds.check_optional_texts("signature", self.signatures or ())
        bounds.check_optional_texts("limit_key", self.limit_keys or ())

    def with_signatures(self, signatures: Sequence[str | None] | None) -> JobBatch:
        """Return the same jobs with these signatures."""
        return JobBatch(self.template, self.ids, self.payloads, self.keys, signatures, limit_keys=self.limit_keys)

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
                limit_keys=None if self.limit_keys is None else self.limit_keys[place],
            )
        return replace(
            self.template,
            id=self.ids[place],
            payload=self.payloads[place],
            idempotency_key=self.keys[place] if self.keys else None,
            signature=self.signatures[place] if self.signatures else None,
            limit_key=self.limit_keys[place] if self.limit_keys else self.template.limit_key,
        )

    def __iter__(self) -> Iterator[JobRecord]:
        keys = repeat(None) if self.keys is None else self.keys
        signatures = repeat(None) if self.signatures is None else self.signatures
        limit_keys = repeat(self.template.limit_key) if self.limit_keys is None else self.limit_keys
        for job_id, payload, key, signature, limit_key in zip(
            self.ids,
            self.payloads,
            keys,
            signatures,
            limit_keys,
            strict=False,  # ``repeat(None)`` has no end
        ):
            yield replace(
                self.template,
                id=job_id,
                payload=payload,
                idempotency_key=key,
                signature=signature,
                limit_key=limit_key,
            )


def representatives(jobs: Sequence[JobRecord]) -> Sequence[JobRecord]:
    """One representative record per job shape: the records differ at most in the fields of a ``JobBatch``."""
    return jobs[:1] if isinstance(jobs, JobBatch) else jobs


def has_limit_key(jobs: Sequence[JobRecord]) -> bool:
    """Whether one of the jobs has a limit key."""
    if isinstance(jobs, JobBatch):
        return jobs.template.limit_key is not None or any(key is not None for key in jobs.limit_keys or ())
    return any(job.limit_key is not None for job in jobs)


def must_wait(jobs: Sequence[JobRecord]) -> bool:
    """Whether one of the jobs cannot be leased while it is stored.

    Such a job has a domain, a ``run_at``, or a limit key: only ``reserve`` computes with limits.
    """
    return has_limit_key(jobs) or any(job.domain is not None or job.run_at is not None for job in representatives(jobs))


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
        template = _count_attempt_of(jobs.template)
        return JobBatch(template, jobs.ids, jobs.payloads, jobs.keys, jobs.signatures, limit_keys=jobs.limit_keys)
    return [_count_attempt_of(job) for job in jobs]


def _count_attempt_of(job: JobRecord) -> JobRecord:
    return replace(job, state=State.INFLIGHT, attempts=job.attempts + 1)
