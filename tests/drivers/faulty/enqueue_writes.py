"""Faulty drivers: registry writes with an enqueue."""

from __future__ import annotations

from typing import TypeVar, cast

from msgspec.structs import replace

from holdfast.drivers import requests as r
from holdfast.drivers.answers import Stored
from holdfast.drivers.store import Store
from holdfast.errors import WriteRefused
from tests.drivers.faulty.faulty_driver import FaultyDriver

A = TypeVar("A")


class RefusedWritesKeepTheJobs(FaultyDriver):
    """The jobs of an enqueue are stored although one of its writes was refused."""

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Store the jobs after the refusal."""
        try:
            return super().enqueue(request)
        except WriteRefused:
            super().enqueue(replace(request, writes=()))
            raise


class RefusedWritesAreMadeInPart(FaultyDriver):
    """The writes of an enqueue before the refused write are made."""

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Make the writes up to the refused one."""
        try:
            return super().enqueue(request)
        except WriteRefused:
            for change in request.writes:
                if self.write(r.Write(changes=[change], now=request.now)) == [None]:
                    break
            raise


class KnownJobSkipsWrites(FaultyDriver):
    """The writes of an enqueue are not made if one of its jobs existed."""

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Look for known jobs first."""
        keys = {key for _, key in self._space.keys}
        is_known = any(job.id in self._space.rows or job.idempotency_key in keys for job in request.jobs)
        return super().enqueue(replace(request, writes=()) if is_known else request)


class _WritesBeforeItChecks(Store):
    def do(self, request: r.Request[A]) -> A:
        if not (isinstance(request, r.Enqueue) and request.writes and request.jobs):
            return super().do(request)
        self.do(r.Write(changes=request.writes, now=request.now))
        return cast("A", super().do(replace(request, writes=())))


class InvalidJobKeepsWrites(FaultyDriver):
    """The writes of an enqueue are made although one of its jobs is invalid."""

    store_type = _WritesBeforeItChecks


class EnqueueWritesAreNotAtomic(FaultyDriver):
    """An enqueue compares the versions of its writes before it takes the lock: several callers store their jobs."""

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Compare, wait, write."""
        if not request.writes:
            return super().enqueue(request)
        conflict = self._space.registry.find_conflict(request.writes, self._now(request))
        self.let_others_in()
        if conflict is None:
            writes = [replace(change, version=None) for change in request.writes]
            request = replace(request, writes=writes)
        return super().enqueue(request)


class RepeatedIdWritesTwice(FaultyDriver):
    """The writes of an enqueue are made again for a repeated id of the batch."""

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Split the batch before a repeated id."""
        jobs = request.jobs
        place = next((place for place, job in enumerate(jobs) if job in jobs[:place]), 0)
        if not request.writes or not place:
            return super().enqueue(request)
        first = super().enqueue(replace(request, jobs=jobs[:place]))
        second = super().enqueue(replace(request, jobs=jobs[place:]))
        return Stored([*first.answers, *second.answers])


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    RefusedWritesKeepTheJobs,
    RefusedWritesAreMadeInPart,
    KnownJobSkipsWrites,
    InvalidJobKeepsWrites,
    EnqueueWritesAreNotAtomic,
    RepeatedIdWritesTwice,
)
