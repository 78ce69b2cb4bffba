"""Faulty drivers: enqueue and idempotency keys."""

# ruff: noqa: ARG002 - an override keeps the arguments that it does not use

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar, cast

from msgspec import structs
from msgspec.structs import replace

from holdfast.drivers import requests as r
from holdfast.drivers.answers import Stored
from holdfast.drivers.memory.reserve import lease_rows
from holdfast.drivers.memory.rows import Row, StoredKey
from holdfast.drivers.memory.space import Space
from holdfast.drivers.store import Store
from holdfast.model.job import JobRecord, State
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued, Lease, is_expired
from holdfast.model.transition import Transition
from holdfast.model.unique import WHILE_QUEUED
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace

A = TypeVar("A")


class DedupeIsNotAtomic(FaultyDriver):
    """Enqueue looks up and claims a key in two steps: concurrent callers all create a job."""

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Look up the keys, wait, insert the jobs whose key was free."""
        keys = [(job.queue, job.idempotency_key) for job in request.jobs if job.idempotency_key is not None]
        free_keys = [key for key in keys if key not in self._space.keys]
        if free_keys:
            self.let_others_in()
        for queue, key in free_keys:
            self._space.keys.pop((queue, str(key)), None)
        return super().enqueue(request)


class DedupeIgnoresQueue(FaultyDriver):
    """A key identifies one job in all queues, not in one queue."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        for (_, key), stored_key in space.keys.items():
            if key == job.idempotency_key and space.is_taken(stored_key, now):
                return Enqueued(id=stored_key.job_id, existed=True, conflict=stored_key.payload != job.payload)
        return super()._enqueue(space, job, now)


class _KeyForgottenAtAckSpace(FaultySpace):
    def end(self, row: Row, transition: Transition, verb: str, now: int, started_at: int | None = None) -> None:
        super().end(row, transition, verb, now, started_at)
        if verb == "ack":
            self.keys = {key: stored_key for key, stored_key in self.keys.items() if stored_key.job_id != row.job.id}


class KeyForgottenAtAck(FaultyDriver):
    """An ack removes the idempotency key."""

    space_type = _KeyForgottenAtAckSpace


class _KeyForgottenAtEndingSpace(FaultySpace):
    def is_taken(self, key: StoredKey, now: int) -> bool:
        del now
        row = self.rows.get(key.job_id)
        return row is not None and not row.job.state.has_ended


class KeyForgottenAtEnding(FaultyDriver):
    """A key is remembered until its job ends, not for its window."""

    space_type = _KeyForgottenAtEndingSpace


class _KeyForgottenAfterWindowSpace(FaultySpace):
    def is_taken(self, key: StoredKey, now: int) -> bool:
        return not is_expired(key.until, now)


class KeyForgottenAfterWindow(FaultyDriver):
    """A key is forgotten after its window although its job has not ended."""

    space_type = _KeyForgottenAfterWindowSpace


class KeyTakenOverAfterWait(FaultyDriver):
    """A key whose window has passed is taken over although a job that entered it meanwhile is open."""

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Look which jobs are open, wait, and forget the expired keys of all other jobs."""
        known = set(self._space.rows)
        self.let_others_in()
        now = self._now(request)
        for job in request.jobs:
            stored_key = self._space.keys.get((job.queue, str(job.idempotency_key)))
            if stored_key is not None and stored_key.job_id not in known and is_expired(stored_key.until, now):
                del self._space.keys[job.queue, str(job.idempotency_key)]
        return super().enqueue(request)


class _KeyNeverForgottenSpace(FaultySpace):
    def is_taken(self, key: StoredKey, now: int) -> bool:
        del key, now
        return True


class KeyNeverForgotten(FaultyDriver):
    """A key is remembered forever."""

    space_type = _KeyNeverForgottenSpace


class UniqueForNotStored(FaultyDriver):
    """A job is stored without the rule of its key."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        answer = super()._enqueue(space, job, now)
        if not answer.existed:
            space.rows[job.id].job = replace(job, unique_for=None)
        return answer


class UniqueForIgnored(FaultyDriver):
    """Every key has the window of its queue."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        answer = super()._enqueue(space, replace(job, unique_for=None), now)
        if not answer.existed:
            space.rows[job.id].job = job
        return answer


class UniqueForOfTheNewerJob(FaultyDriver):
    """An enqueue with a taken key changes how long the key is taken."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        answer = super()._enqueue(space, job, now)
        stored_key = space.keys.get((job.queue, job.idempotency_key or ""))
        if answer.existed and stored_key is not None and job.unique_for == WHILE_QUEUED:
            stored_key.until, stored_key.while_queued = now, True
        return answer


class _QueuedKeyTakenWhileRunningSpace(FaultySpace):
    def is_taken(self, key: StoredKey, now: int) -> bool:
        row = self.rows.get(key.job_id)
        return super().is_taken(key, now) or (row is not None and not row.job.state.has_ended)


class QueuedKeyTakenWhileRunning(FaultyDriver):
    """A running job has its key although the key is taken only while the job is queued."""

    space_type = _QueuedKeyTakenWhileRunningSpace


class _QueuedKeyForgottenAtReserveSpace(FaultySpace):
    def lease(self, row: Row, lease: Lease, worker: str, now: int, *, prefetched: bool) -> None:
        super().lease(row, lease, worker, now, prefetched=prefetched)
        place = (row.job.queue, row.job.idempotency_key or "")
        if row.job.unique_for == WHILE_QUEUED and place in self.keys and self.keys[place].job_id == row.job.id:
            del self.keys[place]


class QueuedKeyForgottenAtReserve(FaultyDriver):
    """A job that is queued again, after a retry, does not have its key again."""

    space_type = _QueuedKeyForgottenAtReserveSpace


class _QueuedKeyTakenBackSpace(FaultySpace):
    def end(self, row: Row, transition: Transition, verb: str, now: int, started_at: int | None = None) -> None:
        super().end(row, transition, verb, now, started_at)
        stored_key = self.keys.get((row.job.queue, row.job.idempotency_key or ""))
        if stored_key is not None and row.job.state is State.READY:
            stored_key.job_id = row.job.id


class QueuedKeyTakenBack(FaultyDriver):
    """A job that is queued again takes its key from the newer job that has the key."""

    space_type = _QueuedKeyTakenBackSpace


class EnqueueOverwritesPayload(FaultyDriver):
    """A known id takes the new payload."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        answer = super()._enqueue(space, job, now)
        if answer.existed and answer.id == job.id:
            row = space.rows[job.id]
            row.job = replace(row.job, payload=job.payload)
        return answer


class _EnqueuesOneByOne(Store):
    def do(self, request: r.Request[A]) -> A:
        if not isinstance(request, r.Enqueue) or request.writes or request.lease is not None:
            return super().do(request)
        parts = [super(_EnqueuesOneByOne, self).do(structs.replace(request, jobs=[job])) for job in request.jobs]
        return cast("A", Stored([answer for part in parts for answer in part.answers]))


class EnqueueStoresPartOfBatch(FaultyDriver):
    """The records before an invalid record are stored."""

    store_type = _EnqueuesOneByOne


class BatchSharesOneSignature(FaultyDriver):
    """Every job of a ``JobBatch`` gets the signature of the first one."""

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Copy the first signature."""
        jobs = request.jobs
        if isinstance(jobs, JobBatch) and jobs.signatures:
            request = structs.replace(request, jobs=jobs.with_signatures([jobs.signatures[0]] * len(jobs)))
        return super().enqueue(request)


class LeasedEnqueueForgetsSignatures(FaultyDriver):
    """A ``JobBatch`` that is leased at enqueue is stored without its signatures."""

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Leave the signatures out."""
        if request.lease is not None and isinstance(request.jobs, JobBatch):
            request = structs.replace(request, jobs=request.jobs.with_signatures(None))
        return super().enqueue(request)


class KeyKeepsItsOldWindow(FaultyDriver):
    """A purged job that is enqueued again does not get a new window for its key."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        place = (job.queue, job.idempotency_key or "")
        known = space.keys.get(place)
        answer = super()._enqueue(space, job, now)
        if known is not None and known.job_id == job.id:
            space.keys[place] = known
        return answer


class LeasedEnqueueLeasesKnownJobs(FaultyDriver):
    """A batch that is enqueued again gets leases of jobs that other workers may have."""

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Lease every job that has not ended."""
        lease = request.lease
        if lease is None:
            return super().enqueue(request)
        answers = super().enqueue(structs.replace(request, lease=None)).answers
        rows, now = [self._space.rows[answer.id] for answer in answers], self._now(request)
        open_rows = [row for row in rows if not row.job.state.has_ended]
        expires_at = now + lease.lease_for
        return Stored(answers, lease_rows(self._space, open_rows, expires_at=expires_at, worker=lease.worker, now=now))


class _NeverLimitedSpace(FaultySpace):
    def is_limited(self, queues: Collection[str], now: int) -> bool:
        return False


class LeasedEnqueueIgnoresLimits(FaultyDriver):
    """Jobs that are leased at enqueue ignore pause and limits."""

    space_type = _NeverLimitedSpace


class ReplacementIsNotRecorded(FaultyDriver):
    """A dead job that a record replaces gets no ledger row."""

    def _replace_dead(self, request: r.Enqueue, before: int) -> None:
        kept = list(self._space.ledger.rows)
        super()._replace_dead(request, before)
        self._space.ledger.rows[:] = kept


class ReplacesWhateverHasTheKey(FaultyDriver):
    """A record replaces the job that has its key in any state and of any instant."""

    def _replace_dead(self, request: r.Enqueue, before: int) -> None:
        for job in request.jobs:
            if job.id not in self._space.rows:
                self._space.keys.pop((job.queue, job.idempotency_key or ""), None)


class ReplacementIsNotAtomic(FaultyDriver):
    """A dead job is removed before its record is stored, and the key is free in between for several callers."""

    def _replace_dead(self, request: r.Enqueue, before: int) -> None:
        """Let the other callers see the dead job, too."""
        space, stale = self._space, dict(self._space.keys)
        self.let_others_in()
        for job in request.jobs:
            place = (job.queue, job.idempotency_key or "")
            holder = stale.get(place)
            row = None if holder is None else space.rows.get(holder.job_id)
            if job.id not in space.rows and (row is None or row.job.state is State.DEAD):
                if row is not None:
                    space.purge(row, self._now(request))
                space.keys.pop(place, None)


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    DedupeIsNotAtomic,
    DedupeIgnoresQueue,
    KeyForgottenAtAck,
    KeyForgottenAtEnding,
    KeyForgottenAfterWindow,
    KeyTakenOverAfterWait,
    KeyNeverForgotten,
    UniqueForNotStored,
    UniqueForIgnored,
    UniqueForOfTheNewerJob,
    QueuedKeyTakenWhileRunning,
    QueuedKeyForgottenAtReserve,
    QueuedKeyTakenBack,
    EnqueueOverwritesPayload,
    EnqueueStoresPartOfBatch,
    BatchSharesOneSignature,
    ReplacementIsNotRecorded,
    ReplacesWhateverHasTheKey,
    ReplacementIsNotAtomic,
    LeasedEnqueueForgetsSignatures,
    KeyKeepsItsOldWindow,
    LeasedEnqueueLeasesKnownJobs,
    LeasedEnqueueIgnoresLimits,
)
