"""The verbs of producers and workers, written out from the laws."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import assert_never

from holdfast.clock import SECOND
from holdfast.errors import JobNotInflight, LeaseError, LeaseExpired, LeaseMismatch, WriteRefused
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.ledger import Ending
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.testing.drivers.oracle.facts import Facts, Kept, Key, SettingsKey


@dataclass(slots=True)
class Verbs(Facts):
    """Enqueue, reserve, extend, settle, reap."""

    # Enqueue ------------------------------------------------------------------------------------------------

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int) -> list[Enqueued]:
        """One answer per record, in order; a record sees the ones before it."""
        return [self._enqueue(job, now) for job in jobs]

    def _enqueue(self, job: JobRecord, now: int) -> Enqueued:
        known = self.jobs.get(job.id)
        if known is not None:  # L6
            return Enqueued(id=job.id, existed=True, conflict=known.record.payload != job.payload)
        if job.idempotency_key is not None:  # L12
            key = self.keys.get((job.queue, job.idempotency_key))
            if key is not None and self._holds(key, now):
                return Enqueued(id=key.job_id, existed=True, conflict=key.payload != job.payload)
            window = self.settings.get((job.queue, None), QueueSettings()).dedupe_window
            self.keys[job.queue, job.idempotency_key] = Key(job.id, job.payload, now + window)
        self._arrive(job, enqueued_at=now, available_at=now if job.run_at is None else job.run_at)
        return Enqueued(id=job.id, existed=False)

    # Reserve ------------------------------------------------------------------------------------------------

    def reserve(
        self,
        queues: Sequence[str],
        *,
        limit: int,
        lease_for: int,
        worker: str = "",
        types: Collection[str] | None = None,
        now: int,
    ) -> list[Reservation]:
        """Reap what is due, then take the first jobs that may run and for which there is room (L3)."""
        self.reap(queues, now=now)
        candidates = [
            job
            for job in self.jobs.values()
            if job.state is State.READY
            and job.record.queue in queues
            and (types is None or job.record.type in types)
            and job.available_at <= now
            and self._has_turn(job)
        ]
        candidates.sort(key=lambda job: (-job.record.priority, job.available_at, job.seq))  # L10
        taken: list[Reservation] = []
        for job in candidates:
            if len(taken) < limit and self._has_room(job, now):
                taken.append(self._take(job, now + lease_for, worker, now))
        return taken

    def _has_turn(self, job: Kept) -> bool:
        """No job of its domain that has not ended came earlier (L11)."""
        return job.record.domain is None or not any(
            other.seq < job.seq
            and not other.state.has_ended
            and (other.record.queue, other.record.domain) == (job.record.queue, job.record.domain)
            for other in self.jobs.values()
        )

    def _limits(self, job: Kept) -> list[tuple[SettingsKey, QueueSettings]]:
        keys: list[SettingsKey] = [(job.record.queue, None), (job.record.queue, job.record.type)]
        return [(key, self.settings[key]) for key in keys if key in self.settings]

    def _has_room(self, job: Kept, now: int) -> bool:
        for (queue, type_), settings in self._limits(job):
            inflight = [
                other
                for other in self.jobs.values()
                if other.state is State.INFLIGHT and other.record.queue == queue and type_ in (None, other.record.type)
            ]
            if settings.paused_until is not None and now < settings.paused_until:
                return False
            if settings.max_inflight is not None and len(inflight) >= settings.max_inflight:
                return False
            if settings.rate is not None and self._level((queue, type_), settings, now) < 1:
                return False
        return True

    def _level(self, key: SettingsKey, settings: QueueSettings, now: int) -> Fraction:
        """How many jobs the rate leaves: what was left, and what has come since, never more than the burst."""
        assert settings.rate is not None
        burst = Fraction(settings.burst if settings.burst is not None else max(1, math.ceil(settings.rate)))
        left, since = self.levels.get(key, (burst, now))
        return min(burst, left + max(0, now - since) * Fraction(settings.rate) / SECOND)

    def _take(self, job: Kept, expires_at: int, worker: str, now: int) -> Reservation:
        for key, settings in self._limits(job):
            if settings.rate is not None:
                self.levels[key] = (self._level(key, settings, now) - 1, now)
        self.numbers += 1
        lease = Lease(job_id=job.record.id, token=f"{self.numbers}.oracle", fence=self.numbers, expires_at=expires_at)
        job.record = replace(job.record, state=State.INFLIGHT, attempts=job.record.attempts + 1)  # L7
        job.lease, job.worker, job.reserved_at = lease, worker, now
        return Reservation(job=job.record, lease=lease, checkpoint=job.checkpoint)

    # Extend -------------------------------------------------------------------------------------------------

    def extend(
        self, leases: Sequence[Lease], *, lease_for: int, notes: Mapping[str, Note] | None = None, now: int
    ) -> list[Lease | LeaseError]:
        """Each lease that is valid ends later (or sooner), and keeps what its note says."""
        return [self._extend(lease, now + lease_for, (notes or {}).get(lease.job_id), now) for lease in leases]

    def _extend(self, lease: Lease, expires_at: int, note: Note | None, now: int) -> Lease | LeaseError:
        job = self._owned(lease, now)
        if isinstance(job, LeaseError):
            return job
        if note is not None:
            job.started_at = job.started_at if note.started_at is None else note.started_at
            job.progress = job.progress if note.progress is None else note.progress
            job.checkpoint = job.checkpoint if note.checkpoint is None else note.checkpoint
        assert job.lease is not None
        job.lease = replace(job.lease, expires_at=expires_at, cancel_requested=job.cancel_requested)
        return job.lease

    def _owned(self, lease: Lease, now: int) -> Kept | LeaseError:
        """Law L5, in its order."""
        job = self.jobs.get(lease.job_id)
        if job is None:
            return JobNotInflight(lease.job_id, None)
        if job.state is not State.INFLIGHT or job.lease is None:
            return JobNotInflight(lease.job_id, job.state)
        if job.lease.token != lease.token:
            return LeaseMismatch(lease.job_id)
        if now >= job.lease.expires_at:
            return LeaseExpired(lease.job_id, expires_at=job.lease.expires_at, now=now)
        return job

    # Settle -------------------------------------------------------------------------------------------------

    def settle(self, settlements: Sequence[Settlement], *, now: int) -> list[LeaseError | None]:
        """One answer per settlement, in order; one sees the ones before it."""
        return [self._settle(settlement, now) for settlement in settlements]

    def _settle(self, settlement: Settlement, now: int) -> LeaseError | None:
        known = self.jobs.get(settlement.lease.job_id)
        same_again = known is not None and known.last == (settlement.verb, settlement.lease.token)
        if known is not None and same_again and known.state is not State.INFLIGHT:  # L6
            return None
        job = self._owned(settlement.lease, now)
        if isinstance(job, LeaseError):
            return job
        if isinstance(settlement, Ack):
            return self._ack(job, settlement, now)
        if job.cancel_requested:
            self._cancelled_while_running(job, settlement, now)
            return None
        match settlement:
            case Retry():
                self._retry(job, settlement, now)
            case Fail():
                self._fail(job, settlement, now)
            case Release():
                self._release(job, settlement, now)
            case _:
                assert_never(settlement)
        return None

    def _ack(self, job: Kept, ack: Ack, now: int) -> WriteRefused | None:
        for change in ack.writes:
            if not self._expected(change, now):
                return WriteRefused(job.record.id, kind=change.kind, key=change.key)
        for change in ack.writes:
            self._change(change, now)
        self._end(job, Ending.ACKED, State.DONE, now, by=ack)
        job.record = replace(job.record, result=ack.result)
        return None

    def _retry(self, job: Kept, retry: Retry, now: int) -> None:
        exhausted = job.record.attempts >= job.record.max_attempts
        crashes = job.record.crashes + 1 if retry.crashed else 0
        poison = job.record.max_crashes is not None and crashes >= job.record.max_crashes
        state = State.DEAD if exhausted or poison else State.READY
        self._end(job, Ending.RETRIED, state, now, by=retry, error=retry.error)
        job.record = replace(job.record, crashes=crashes, last_error=retry.error, failed_at=now)
        if exhausted or poison:
            self._bury(job, "attempts exhausted" if exhausted else "poison", now)
        else:
            run_at = now + retry.delay if retry.delay else retry.run_at
            job.record = replace(job.record, run_at=run_at)
            job.available_at = now if run_at is None else run_at
            job.released_for = 0

    def _fail(self, job: Kept, fail: Fail, now: int) -> None:
        self._end(job, Ending.FAILED, State.DEAD, now, by=fail, error=fail.error)
        job.record = replace(job.record, last_error=fail.error, failed_at=now)
        self._bury(job, fail.reason, now)

    def _release(self, job: Kept, release: Release, now: int) -> None:
        """The attempt is refunded; the delays and the time it was held come out of the budget (L8)."""
        assert job.reserved_at is not None
        job.released_for += now - job.reserved_at + release.delay
        spent = job.released_for > release.budget
        state = State.DEAD if spent else State.READY
        self._end(job, Ending.RELEASED, state, now, by=release)
        job.record = replace(job.record, attempts=job.record.attempts - 1)
        if release.delay:
            job.record = replace(job.record, run_at=now + release.delay)
            job.available_at = now + release.delay
        if spent:
            self._bury(job, "released too long", now)

    def _cancelled_while_running(self, job: Kept, settlement: Retry | Fail | Release, now: int) -> None:
        error = "" if isinstance(settlement, Release) else settlement.error
        detail = settlement.detail or f"cancelled at {settlement.verb}"
        self._end(job, Ending.CANCELLED, State.CANCELLED, now, by=settlement, detail=detail, error=error)
        if isinstance(settlement, Release):
            job.record = replace(job.record, attempts=job.record.attempts - 1)
        if error:
            job.record = replace(job.record, last_error=error, failed_at=now)

    # Reap ---------------------------------------------------------------------------------------------------

    def reap(
        self,
        queues: Sequence[str] | None = None,
        *,
        worker: str | None = None,
        limit: int = 1000,
        now: int,
    ) -> int:
        """End what has expired, or everything that a dead worker holds; oldest expiry first."""
        due: list[tuple[int, int, Kept]] = []
        for job in self.jobs.values():
            if job.lease is not None and (queues is None or job.record.queue in queues):
                theirs = worker is not None and job.worker == worker
                expired = worker is None and now >= job.lease.expires_at  # L2
                if theirs or expired:
                    due.append((job.lease.expires_at, job.seq, job))
        due.sort(key=lambda place: place[:2])
        for expires_at, _, job in due[:limit]:
            self._expire(job, min(expires_at, now), now)
        return len(due[:limit])

    def _expire(self, job: Kept, available_at: int, now: int) -> None:
        """The attempt is used: runnable at once, or dead, or cancelled if that was asked for (L7)."""
        record = replace(job.record, crashes=job.record.crashes + 1)
        out_of_attempts = record.attempts >= record.max_attempts
        poison = record.max_crashes is not None and record.crashes >= record.max_crashes
        if job.cancel_requested:
            self._end(job, Ending.CANCELLED, State.CANCELLED, now, detail="lease expired")
            job.record = replace(job.record, crashes=record.crashes)
        elif out_of_attempts or poison:
            self._end(job, Ending.EXPIRED, State.DEAD, now)
            job.record = replace(job.record, crashes=record.crashes)
            self._bury(job, "lease expired" if out_of_attempts else "poison", now)
        else:
            self._end(job, Ending.EXPIRED, State.READY, now)
            job.record = replace(job.record, crashes=record.crashes, run_at=None)
            job.available_at = available_at
            job.released_for = 0
