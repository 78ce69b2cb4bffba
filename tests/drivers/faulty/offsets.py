"""Faulty drivers: the offsets of domains."""

from __future__ import annotations

from msgspec import structs
from msgspec.structs import replace

from holdfast.drivers import requests as r
from holdfast.drivers.answers import Stored
from holdfast.drivers.memory.domains import Domain, OpenJob, Place
from holdfast.drivers.memory.rows import Row, StoredKey
from holdfast.drivers.memory.space import Space
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace


class _DomainByArrival(Domain):
    @staticmethod
    def key(job: JobRecord, seq: int) -> OpenJob:
        return Domain.key(replace(job, offset=None), seq)


class _OffsetsByArrivalSpace(FaultySpace):
    domain_type = _DomainByArrival


class OffsetsByArrival(FaultyDriver):
    """A domain with offsets runs in the order of arrival."""

    space_type = _OffsetsByArrivalSpace


class _JobsWithoutOffsetFirst(Domain):
    @staticmethod
    def key(job: JobRecord, seq: int) -> OpenJob:
        return Domain.key(job, seq) if job.offset is not None else (-1, seq, job.id)


class _JobsWithoutOffsetFirstSpace(FaultySpace):
    domain_type = _JobsWithoutOffsetFirst


class JobsWithoutOffsetFirst(FaultyDriver):
    """Jobs without an offset run before those with one."""

    space_type = _JobsWithoutOffsetFirstSpace


class _KeepsTurnSpace(FaultySpace):
    def assign_turn(self, place: Place) -> None:
        if self.domains[place].turn is None:
            super().assign_turn(place)


class KeepsTheTurnOfALargerOffset(FaultyDriver):
    """A ready job keeps the turn of its domain when a smaller offset arrives."""

    space_type = _KeepsTurnSpace


class _TakesTurnSpace(FaultySpace):
    def assign_turn(self, place: Place) -> None:
        domain = self.domains[place]
        holder = None if domain.turn is None else self.rows[domain.turn]
        if holder is not None and holder.job.state is State.INFLIGHT and domain.jobs[0][2] != domain.turn:
            domain.turn = domain.jobs[0][2]
            self._enter_lane(self.rows[domain.turn])
        else:
            super().assign_turn(place)


class TakesTheTurnOfARunningJob(FaultyDriver):
    """A smaller offset that arrives runs at once, beside the larger one that is in flight."""

    space_type = _TakesTurnSpace


class _ForgetsOnPurgeSpace(FaultySpace):
    def remove(self, row: Row) -> None:
        super().remove(row)
        place = self.place_of(row.job)
        if place is not None and row.job.offset is not None:
            self.domains[place].ended.discard(row.job.offset)


class ForgetsPastOffsetsOnPurge(FaultyDriver):
    """An offset is new again when its job is purged or trimmed."""

    space_type = _ForgetsOnPurgeSpace


def _highest_ended(space: Space, job: JobRecord) -> int:
    """Return the highest offset that has ended in the domain of a job; -1 if none has."""
    place = space.place_of(job)
    domain = None if place is None else space.domains.get(place)
    return -1 if domain is None or domain.ended.highest is None else domain.ended.highest


class WatermarkInsteadOfIntervals(FaultyDriver):
    """Every offset below the highest one that has ended is past, also one that was never seen."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        is_open = any(row.job.offset == job.offset and not row.job.state.has_ended for row in space.rows.values())
        if job.offset is not None and not is_open and job.offset < _highest_ended(space, job):
            return Enqueued(id=job.id, existed=True, past=True)
        return super()._enqueue(space, job, now)


class SwallowsLateOffsets(FaultyDriver):
    """An offset that comes after a larger one has ended is accepted and not stored."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        answer = super()._enqueue(space, job, now)
        if not answer.existed and job.offset is not None and job.offset < _highest_ended(space, job):
            space.cancel(space.rows[job.id], now)
            space.remove(space.rows[job.id])
        return answer


class PastNotSaid(FaultyDriver):
    """An offset that has ended is answered as if its job were open."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        return replace(super()._enqueue(space, job, now), past=False)


class PastTakesItsKey(FaultyDriver):
    """A record that is refused by its offset takes its idempotency key."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        answer = super()._enqueue(space, job, now)
        if answer.existed and job.offset is not None and job.idempotency_key is not None:
            key = StoredKey(answer.id, job.payload, now + 1, while_queued=False)
            space.keys.setdefault((job.queue, job.idempotency_key), key)
        return answer


class OffsetBeforeKey(FaultyDriver):
    """A record with a known offset and a taken key is answered by its offset."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        if job.offset is None or job.idempotency_key is None or job.id in space.rows:
            return super()._enqueue(space, job, now)
        by_offset = super()._enqueue(space, replace(job, idempotency_key=None), now)
        return by_offset if by_offset.existed else super()._enqueue(space, job, now)


class RepeatedKeysArriveLast(FaultyDriver):
    """A record whose key an earlier record of its batch has is stored after the others, if that one was refused."""

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Store the records whose key an earlier record has last."""
        jobs = request.jobs
        keys = [job.idempotency_key for job in jobs]
        places = sorted(range(len(jobs)), key=lambda place: keys[place] is not None and keys[place] in keys[:place])
        answers = super().enqueue(structs.replace(request, jobs=[jobs[place] for place in places])).answers
        return Stored([answers[places.index(place)] for place in range(len(jobs))])


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    OffsetsByArrival,
    JobsWithoutOffsetFirst,
    KeepsTheTurnOfALargerOffset,
    TakesTheTurnOfARunningJob,
    ForgetsPastOffsetsOnPurge,
    WatermarkInsteadOfIntervals,
    SwallowsLateOffsets,
    PastNotSaid,
    PastTakesItsKey,
    OffsetBeforeKey,
    RepeatedKeysArriveLast,
)
