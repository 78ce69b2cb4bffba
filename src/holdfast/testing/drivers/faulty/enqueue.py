"""Faulty drivers: enqueue and idempotency keys."""

# ruff: noqa: ARG004 - an override keeps the arguments that it does not use

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from holdfast.drivers.memory.space import Dedupe, Row, Space
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued, Reservation, is_expired
from holdfast.model.transition import Transition
from holdfast.testing.drivers.faulty.faulty_driver import RACE_WINDOW_SECONDS, FaultyDriver, FaultySpace


class DedupeIsNotAtomic(FaultyDriver):
    """Enqueue looks up and claims a key in two steps: concurrent callers all make a job."""

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int | None = None) -> list[Enqueued]:
        """Look up the keys, wait, insert the jobs whose key was free."""
        self._validation.check_enqueue(jobs)
        keys = [(job.queue, job.idempotency_key) for job in jobs if job.idempotency_key is not None]
        with self._changed:
            free_keys = [key for key in keys if key not in self._space.dedupe]
        time.sleep(RACE_WINDOW_SECONDS if free_keys else 0)
        with self._changed:
            for queue, key in free_keys:
                self._space.dedupe.pop((queue, str(key)), None)
            return super().enqueue(jobs, now=now)


class DedupeIgnoresQueue(FaultyDriver):
    """A key stands for one job in all queues."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        for (_, key), mapped in space.dedupe.items():
            if key == job.idempotency_key and self._remembers(space, mapped, now):
                return Enqueued(id=mapped.job_id, existed=True, conflict=mapped.payload != job.payload)
        return super()._enqueue(space, job, now)


class _KeyForgottenAtAckSpace(FaultySpace):
    def end(self, row: Row, transition: Transition, verb: str, now: int, started_at: int | None = None) -> None:
        super().end(row, transition, verb, now, started_at)
        if verb == "ack":
            self.dedupe = {key: mapped for key, mapped in self.dedupe.items() if mapped.job_id != row.job.id}


class KeyForgottenAtAck(FaultyDriver):
    """An ack removes the idempotency key."""

    space_type = _KeyForgottenAtAckSpace


class KeyForgottenAtEnding(FaultyDriver):
    """A key is remembered until its job ends, not for its window."""

    @staticmethod
    def _remembers(space: Space, mapped: Dedupe, now: int) -> bool:
        del now
        row = space.rows.get(mapped.job_id)
        return row is not None and not row.job.state.has_ended


class KeyForgottenAfterWindow(FaultyDriver):
    """A key is forgotten after its window although its job has not ended."""

    @staticmethod
    def _remembers(space: Space, mapped: Dedupe, now: int) -> bool:
        del space
        return not is_expired(mapped.until, now)


class KeyNeverForgotten(FaultyDriver):
    """A key is remembered forever."""

    @staticmethod
    def _remembers(space: Space, mapped: Dedupe, now: int) -> bool:
        del space, mapped, now
        return True


class EnqueueOverwritesPayload(FaultyDriver):
    """A known id takes the new payload."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        answer = super()._enqueue(space, job, now)
        if answer.existed and answer.id == job.id:
            row = space.rows[job.id]
            row.job = replace(row.job, payload=job.payload)
        return answer


class EnqueueStoresPartOfBatch(FaultyDriver):
    """The records before an invalid record are stored."""

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int | None = None) -> list[Enqueued]:
        """Enqueue the records one by one."""
        self._validation.now(now)
        return [answer for job in jobs for answer in super(EnqueueStoresPartOfBatch, self).enqueue([job], now=now)]


class LeasedEnqueueLeasesKnownJobs(FaultyDriver):
    """A batch that is enqueued again gets leases of jobs that other workers may have."""

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """Lease every job that has not ended."""
        answers = self.enqueue(jobs, now=now)
        with self._changed:
            rows = [row for answer in answers if not (row := self._space.rows[answer.id]).job.state.has_ended]
            reserved_at = self._validation.now(now)
            return answers, self._lease(self._space, rows, reserved_at, reserved_at + lease_for, worker)


class LeasedEnqueueIgnoresLimits(FaultyDriver):
    """Jobs that are leased at enqueue ignore pause and limits."""

    @staticmethod
    def _is_limited(space: Space, jobs: Sequence[JobRecord], now: int) -> bool:
        return False


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    DedupeIsNotAtomic,
    DedupeIgnoresQueue,
    KeyForgottenAtAck,
    KeyForgottenAtEnding,
    KeyForgottenAfterWindow,
    KeyNeverForgotten,
    EnqueueOverwritesPayload,
    EnqueueStoresPartOfBatch,
    LeasedEnqueueLeasesKnownJobs,
    LeasedEnqueueIgnoresLimits,
)
