"""Faulty drivers: registry writes with an enqueue."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.errors import WriteRefused
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued
from holdfast.model.registry import Change
from tests.drivers.faulty.faulty_driver import RACE_WINDOW_SECONDS, FaultyDriver


class RefusedWritesKeepTheJobs(FaultyDriver):
    """The jobs of an enqueue are stored although one of its writes was refused."""

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """Store the jobs after the refusal."""
        try:
            return super().enqueue(jobs, writes=writes, replace_dead_before=replace_dead_before, now=now)
        except WriteRefused:
            super().enqueue(jobs, now=now)
            raise


class RefusedWritesAreMadeInPart(FaultyDriver):
    """The writes of an enqueue before the refused write are made."""

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """Make the writes up to the refused one."""
        try:
            return super().enqueue(jobs, writes=writes, replace_dead_before=replace_dead_before, now=now)
        except WriteRefused:
            for change in writes:
                if self.write([change], now=now) == [None]:
                    break
            raise


class KnownJobSkipsWrites(FaultyDriver):
    """The writes of an enqueue are not made if one of its jobs existed."""

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """Look for known jobs first."""
        with self._lock:
            keys = {key for _, key in self._space.keys}
            is_known = any(job.id in self._space.rows or job.idempotency_key in keys for job in jobs)
            return super().enqueue(
                jobs, writes=() if is_known else writes, replace_dead_before=replace_dead_before, now=now
            )


class InvalidJobKeepsWrites(FaultyDriver):
    """The writes of an enqueue are made although one of its jobs is invalid."""

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """Write before the jobs are checked."""
        if not writes:
            return super().enqueue(jobs, replace_dead_before=replace_dead_before, now=now)
        self._validation.check_enqueue_writes(jobs, writes)
        with self._lock:
            if refused := self._open_space().registry.write_all(writes, self._validation.now(now), job_id=jobs[0].id):
                raise refused
            return super().enqueue(jobs, replace_dead_before=replace_dead_before, now=now)


class EnqueueWritesAreNotAtomic(FaultyDriver):
    """An enqueue compares the versions of its writes before it takes the lock: several callers store their jobs."""

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """Compare, wait, write."""
        if not writes:
            return super().enqueue(jobs, replace_dead_before=replace_dead_before, now=now)
        self._validation.check_enqueue_writes(jobs, writes)
        with self._lock:
            conflict = self._open_space().registry.find_conflict(writes, self._validation.now(now))
        time.sleep(RACE_WINDOW_SECONDS)
        if conflict is None:
            writes = [replace(change, version=None) for change in writes]
        return super().enqueue(jobs, writes=writes, replace_dead_before=replace_dead_before, now=now)


class RepeatedIdWritesTwice(FaultyDriver):
    """The writes of an enqueue are made again for a repeated id of the batch."""

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """Split the batch before a repeated id."""
        place = next((place for place, job in enumerate(jobs) if job in jobs[:place]), 0)
        if not writes or not place:
            return super().enqueue(jobs, writes=writes, replace_dead_before=replace_dead_before, now=now)
        first = super().enqueue(jobs[:place], writes=writes, replace_dead_before=replace_dead_before, now=now)
        return [*first, *super().enqueue(jobs[place:], writes=writes, replace_dead_before=replace_dead_before, now=now)]


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    RefusedWritesKeepTheJobs,
    RefusedWritesAreMadeInPart,
    KnownJobSkipsWrites,
    InvalidJobKeepsWrites,
    EnqueueWritesAreNotAtomic,
    RepeatedIdWritesTwice,
)
