"""Many new jobs that differ only in id, payload and key: one record for what they share, columns for the rest.

To every driver it is a sequence of records like any other. One that knows it need not look at each: a record costs some
microseconds to make, to check and to take apart again, as much as a store needs to keep it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from operator import attrgetter
from typing import cast, overload

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.draft import draft_of
from holdfast.model.job import JobRecord, check_new

_JobDraft = draft_of(JobRecord)
_OWN = frozenset({"id", "payload", "idempotency_key"})
_shared = attrgetter(*(name for name in JobRecord.__slots__ if name not in _OWN))


class Alike(Sequence[JobRecord]):
    """Records like ``like``, each with an id of its own, a payload, and a key if ``keys`` are given."""

    __slots__ = ("ids", "keys", "like", "payloads")

    def __init__(
        self,
        like: JobRecord,
        ids: Sequence[str],
        payloads: Sequence[bytes],
        keys: Sequence[str | None] | None = None,
    ) -> None:
        """The id and the payload of ``like`` itself do not count."""
        if keys is None and like.idempotency_key is not None:
            raise InvalidInput("keys", wanted="one for each payload", got="one for all")
        for name, column in (("payloads", payloads), ("keys", keys)):
            if column is not None and len(column) != len(ids):
                raise InvalidInput(name, wanted=f"as many as ids, {len(ids)}", got=str(len(column)))
        self.like = like
        self.ids = ids
        self.payloads = payloads
        self.keys = keys

    def check(self) -> None:
        """The same as ``check_new`` of every record."""
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
    def __getitem__(self, place: slice) -> Alike: ...

    def __getitem__(self, place: int | slice) -> JobRecord | Alike:
        keys = self.keys
        if isinstance(place, slice):
            part = None if keys is None else keys[place]
            return Alike(self.like, self.ids[place], self.payloads[place], part)
        [record] = _records(self.like, [self.ids[place]], [self.payloads[place]], [keys[place] if keys else None])
        return record

    def __iter__(self) -> Iterator[JobRecord]:
        return _records(self.like, self.ids, self.payloads, repeat(None) if self.keys is None else self.keys)


def kinds(jobs: Sequence[JobRecord]) -> Sequence[JobRecord]:
    """Records that stand for all of these in everything but id, payload and key: of alike ones the first is enough."""
    return jobs[:1] if isinstance(jobs, Alike) else jobs


def _records(
    like: JobRecord, ids: Sequence[str], payloads: Sequence[bytes], keys: Sequence[str | None] | repeat[None]
) -> Iterator[JobRecord]:
    shared = _shared(like)
    for job_id, payload, key in zip(ids, payloads, keys, strict=False):  # no keys have no end
        job = _JobDraft()
        job.id = job_id
        job.payload = payload
        job.idempotency_key = key
        (  # in the order of the record; by name, not in a loop: as quick as three of its steps
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
