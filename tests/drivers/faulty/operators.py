"""Faulty drivers: cancel, inspect, counts and trim."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from holdfast.clock import DAY
from holdfast.drivers.contract import Inspection, JobFilter, Page, QueueCounts, Trimmed
from holdfast.drivers.memory.settle import end_leases
from holdfast.model.job import JobRecord, State
from tests.drivers.faulty.faulty_driver import FaultyDriver


class CancelEndsRunningJob(FaultyDriver):
    """A cancel ends a running job at once."""

    def cancel(self, job_ids: Sequence[str], *, now: int | None = None) -> list[State | None]:
        """End the jobs that got only a cancel request."""
        answers = super().cancel(job_ids, now=now)
        with self._lock:
            for index, job_id in enumerate(job_ids):
                row = self._space.rows.get(job_id)
                if row is not None and row.job.state is State.INFLIGHT:
                    end_leases(self._space, [row], self._validation.now(now))
                    answers[index] = row.job.state
        return answers


class CancelRequestNotStored(FaultyDriver):
    """The cancel request for a running job is not stored."""

    def cancel(self, job_ids: Sequence[str], *, now: int | None = None) -> list[State | None]:
        """Cancel, then forget every cancel request."""
        states = super().cancel(job_ids, now=now)
        for row in self._space.rows.values():
            row.cancel_requested = False
        return states


class InspectShowsToken(FaultyDriver):
    """Inspect shows the token of a lease."""

    def inspect(self, job_ids: Sequence[str], *, payloads: bool = True) -> dict[str, Inspection]:
        """Append the token to the progress."""
        return {job_id: self._show(one) for job_id, one in super().inspect(job_ids, payloads=payloads).items()}

    def _show(self, inspection: Inspection) -> Inspection:
        if inspection.note is None:
            return inspection
        token = self._space.rows[inspection.job.id].token or ""
        return replace(
            inspection,
            note=structs.replace(inspection.note, progress=(inspection.note.progress or b"") + token.encode()),
        )


class InspectOmitsEndedJobs(FaultyDriver):
    """Several jobs are inspected at once only while they have not ended."""

    def inspect(self, job_ids: Sequence[str], *, payloads: bool = True) -> dict[str, Inspection]:
        """Leave out the jobs that have ended, if there are several."""
        found = super().inspect(job_ids, payloads=payloads)
        return {job_id: one for job_id, one in found.items() if len(found) == 1 or not one.job.state.has_ended}


class InspectAlwaysReadsPayloads(FaultyDriver):
    """Inspect returns payloads to callers that want none."""

    def inspect(self, job_ids: Sequence[str], *, payloads: bool = True) -> dict[str, Inspection]:  # noqa: ARG002 - ignored
        """Return all contents."""
        return super().inspect(job_ids)


class AnyOpenIgnoresRunningJobs(FaultyDriver):
    """``any_open`` ignores running jobs: a worker that drains its queues stops too early."""

    def any_open(self, queues: Sequence[str], types: Collection[str]) -> bool:
        """Look only at ready jobs."""
        filters = (JobFilter(queue=queue, type=type_, states=(State.READY,)) for queue in queues for type_ in types)
        return any(self.find(where, limit=1).items for where in filters)


class FindIgnoresNewest(FaultyDriver):
    """A list that should begin with the newest jobs begins with the oldest ones."""

    def find(
        self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None, newest: bool = False
    ) -> Page[JobRecord]:
        """Return the jobs in the order of ids."""
        del newest
        return super().find(where, limit=limit, after=after)


class PagesHaveNoBoundOfBytes(FaultyDriver):
    """A page has as many jobs as the limit says, however large they are."""

    def find(
        self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None, newest: bool = False
    ) -> Page[JobRecord]:
        """Join pages up to the limit."""
        jobs: list[JobRecord] = []
        while True:
            page = super().find(where, limit=limit - len(jobs), after=after, newest=newest)
            jobs += page.items
            after = page.cursor
            if after is None or len(jobs) == limit:
                return Page(jobs, after)


class NewestJobsRepeat(FaultyDriver):
    """The second page of the newest jobs begins with the last job of the first page."""

    def find(
        self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None, newest: bool = False
    ) -> Page[JobRecord]:
        """Return the jobs up to the cursor, that one included."""
        return super().find(where, limit=limit, after=f"{after}:" if newest and after else after, newest=newest)


class ScheduledCountedAsReady(FaultyDriver):
    """Scheduled jobs are counted as ready."""

    def counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Add the scheduled jobs to the ready jobs."""
        rows = super().counts(queues, states=states, now=now)
        return [replace(row, ready=row.ready + row.scheduled, scheduled=0) for row in rows]


class AgeOfScheduledJobs(FaultyDriver):
    """The age of the oldest ready job is that of the oldest job, also if it is not due yet or runs already."""

    def counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Look at the times of creation."""
        rows = super().counts(queues, states=states, now=now)
        jobs = self.find(JobFilter(states=(State.READY, State.INFLIGHT))).items
        created = {row.queue: [job.created_at for job in jobs if job.queue == row.queue] for row in rows}
        return [
            replace(row, oldest_ready_age=(now or 0) - min(created[row.queue]) if created[row.queue] else None)
            for row in rows
        ]


class CountsIgnoresStates(FaultyDriver):
    """Counts has the numbers of all states, also if only some were requested."""

    def counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Count every state."""
        del states
        return super().counts(queues, now=now)


class TrimRemovesDeadLetters(FaultyDriver):
    """A trim removes dead letters."""

    def trim(self, **options: Any) -> Trimmed:
        """Remove every ended job that is old enough."""
        trimmed = super().trim(**options)
        before = self._validation.now(options.get("now")) - options.get("ended_for", 7 * DAY)
        old_rows = [row for row in self._space.rows.values() if row.ended_at is not None and row.ended_at <= before]
        for row in old_rows:
            self._space.remove(row)
        return replace(trimmed, jobs=trimmed.jobs + len(old_rows))


class TrimKeepsKeysOfDoneJobs(FaultyDriver):
    """A trim keeps the key of a done job as long as the job, and reads it every time."""

    def trim(self, **options: Any) -> Trimmed:
        """Put the keys of jobs that exist back."""
        with self._lock:
            before = dict(self._space.keys)
            trimmed = super().trim(**options)
            kept = {place: key for place, key in before.items() if key.job_id in self._space.rows}
            returned = len(kept.keys() - self._space.keys.keys())
            self._space.keys.update(kept)
        return replace(trimmed, dedupe=trimmed.dedupe - returned)


class TrimRemovesQueuedKeysOfRunningJobs(FaultyDriver):
    """A trim removes the key of a running job that has the key only while it is queued."""

    def trim(self, **options: Any) -> Trimmed:
        """Remove the keys that are not taken now."""
        with self._lock:
            trimmed = super().trim(**options)
            now = self._validation.now(options.get("now"))
            free = [place for place, key in self._space.keys.items() if not self._space.is_taken(key, now)]
            running = [place for place in free if self._space.keys[place].while_queued]
            for place in running:
                del self._space.keys[place]
        return replace(trimmed, dedupe=trimmed.dedupe + len(running))


class TrimForgetsKeptKeys(FaultyDriver):
    """A trim never looks again at a key that an earlier trim has kept."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._kept: set[tuple[str, str]] = set()

    def trim(self, **options: Any) -> Trimmed:
        """Put the keys that an earlier trim has kept back."""
        with self._lock:
            before = dict(self._space.keys)
            trimmed = super().trim(**options)
            returned = {place: key for place, key in before.items() if place in self._kept - self._space.keys.keys()}
            self._space.keys.update(returned)
            self._kept = set(self._space.keys)
        return replace(trimmed, dedupe=trimmed.dedupe - len(returned))


class EstimateOmitsWaitingJobs(FaultyDriver):
    """An estimate has only the jobs that stand in lanes, not those that wait for their turn in a domain."""

    def estimate_counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Count one ready job of every domain."""
        rows = super().estimate_counts(queues, states=states, now=now)
        return [replace(row, ready=min(row.ready, 1)) for row in rows]


class EstimateIsAlwaysOne(FaultyDriver):
    """Every number is reported as an estimate, also that of a small space."""

    def estimate_counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Mark all rows."""
        return [replace(row, is_estimate=True) for row in super().estimate_counts(queues, states=states, now=now)]


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    EstimateOmitsWaitingJobs,
    EstimateIsAlwaysOne,
    CancelEndsRunningJob,
    CancelRequestNotStored,
    InspectShowsToken,
    InspectAlwaysReadsPayloads,
    InspectOmitsEndedJobs,
    AnyOpenIgnoresRunningJobs,
    FindIgnoresNewest,
    PagesHaveNoBoundOfBytes,
    NewestJobsRepeat,
    ScheduledCountedAsReady,
    AgeOfScheduledJobs,
    CountsIgnoresStates,
    TrimRemovesDeadLetters,
    TrimKeepsKeysOfDoneJobs,
    TrimRemovesQueuedKeysOfRunningJobs,
    TrimForgetsKeptKeys,
)
