"""Faulty drivers: cancel, inspect, counts and trim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from holdfast.clock import DAY
from holdfast.drivers import requests as r
from holdfast.drivers.answers import Inspection, Page, QueueCounts, Trimmed
from holdfast.drivers.memory.settle import end_leases
from holdfast.model.job import JobRecord, State
from tests.drivers.faulty.faulty_driver import FaultyDriver


class CancelEndsRunningJob(FaultyDriver):
    """A cancel ends a running job at once."""

    def cancel(self, request: r.Cancel) -> list[State | None]:
        """End the jobs that got only a cancel request."""
        answers = super().cancel(request)
        for index, job_id in enumerate(request.job_ids):
            row = self._space.rows.get(job_id)
            if row is not None and row.job.state is State.INFLIGHT:
                end_leases(self._space, [row], self._now(request))
                answers[index] = row.job.state
        return answers


class CancelRequestNotStored(FaultyDriver):
    """The cancel request for a running job is not stored."""

    def cancel(self, request: r.Cancel) -> list[State | None]:
        """Cancel, then forget every cancel request."""
        states = super().cancel(request)
        for row in self._space.rows.values():
            row.cancel_requested = False
        return states


class InspectShowsToken(FaultyDriver):
    """Inspect shows the token of a lease."""

    def inspect(self, request: r.Inspect) -> dict[str, Inspection]:
        """Append the token to the progress."""
        return {job_id: self._show(one) for job_id, one in super().inspect(request).items()}

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

    def inspect(self, request: r.Inspect) -> dict[str, Inspection]:
        """Leave out the jobs that have ended, if there are several."""
        found = super().inspect(request)
        return {job_id: one for job_id, one in found.items() if len(found) == 1 or not one.job.state.has_ended}


class InspectAlwaysReadsPayloads(FaultyDriver):
    """Inspect returns payloads to callers that want none."""

    def inspect(self, request: r.Inspect) -> dict[str, Inspection]:
        """Return all contents."""
        return super().inspect(structs.replace(request, payloads=True))


class AnyOpenIgnoresRunningJobs(FaultyDriver):
    """``any_open`` ignores running jobs: a worker that drains its queues stops too early."""

    def any_open(self, request: r.AnyOpen) -> bool:
        """Look only at ready jobs."""
        jobs = [row.job for row in self._space.rows.values() if row.job.state is State.READY]
        return any(job.queue in request.queues and job.type in request.types for job in jobs)


class FindIgnoresNewest(FaultyDriver):
    """A list that should begin with the newest jobs begins with the oldest ones."""

    def find(self, request: r.Find) -> Page[JobRecord]:
        """Return the jobs in the order of ids."""
        return super().find(structs.replace(request, newest=False))


class PagesHaveNoBoundOfBytes(FaultyDriver):
    """A page has as many jobs as the limit says, however large they are."""

    def find(self, request: r.Find) -> Page[JobRecord]:
        """Join pages up to the limit."""
        jobs: list[JobRecord] = []
        cursor = request.after
        while True:
            page = super().find(structs.replace(request, limit=request.limit - len(jobs), after=cursor))
            jobs += page.items
            cursor = page.cursor
            if cursor is None or len(jobs) == request.limit:
                return Page(jobs, cursor)


class NewestJobsRepeat(FaultyDriver):
    """The second page of the newest jobs begins with the last job of the first page."""

    def find(self, request: r.Find) -> Page[JobRecord]:
        """Return the jobs up to the cursor, that one included."""
        if request.newest and request.after:
            request = structs.replace(request, after=f"{request.after}:")
        return super().find(request)


class ScheduledCountedAsReady(FaultyDriver):
    """Scheduled jobs are counted as ready."""

    def counts(self, request: r.Counts) -> list[QueueCounts]:
        """Add the scheduled jobs to the ready jobs."""
        return [replace(row, ready=row.ready + row.scheduled, scheduled=0) for row in super().counts(request)]


class AgeOfScheduledJobs(FaultyDriver):
    """The age of the oldest ready job is that of the oldest job, also if it is not due yet or runs already."""

    def counts(self, request: r.Counts) -> list[QueueCounts]:
        """Look at the times of creation."""
        rows, now = super().counts(request), request.now or 0
        jobs = [row.job for row in self._space.rows.values() if not row.job.state.has_ended]
        created = {row.queue: [job.created_at for job in jobs if job.queue == row.queue] for row in rows}
        return [
            replace(row, oldest_ready_age=now - min(created[row.queue]) if created[row.queue] else None) for row in rows
        ]


class CountsIgnoresStates(FaultyDriver):
    """Counts has the numbers of all states, also if only some were requested."""

    def counts(self, request: r.Counts) -> list[QueueCounts]:
        """Count every state."""
        return super().counts(structs.replace(request, states=None))


class TrimRemovesDeadLetters(FaultyDriver):
    """A trim removes dead letters."""

    def trim(self, request: r.Trim) -> Trimmed:
        """Remove every ended job that is old enough."""
        trimmed = super().trim(request)
        before = self._now(request) - (request.ended_for or 7 * DAY)
        old_rows = [row for row in self._space.rows.values() if row.ended_at is not None and row.ended_at <= before]
        for row in old_rows:
            self._space.remove(row)
        return replace(trimmed, jobs=trimmed.jobs + len(old_rows))


class TrimKeepsKeysOfDoneJobs(FaultyDriver):
    """A trim keeps the key of a done job as long as the job, and reads it every time."""

    def trim(self, request: r.Trim) -> Trimmed:
        """Put the keys of jobs that exist back."""
        before = dict(self._space.keys)
        trimmed = super().trim(request)
        kept = {place: key for place, key in before.items() if key.job_id in self._space.rows}
        returned = len(kept.keys() - self._space.keys.keys())
        self._space.keys.update(kept)
        return replace(trimmed, dedupe=trimmed.dedupe - returned)


class TrimRemovesQueuedKeysOfRunningJobs(FaultyDriver):
    """A trim removes the key of a running job that has the key only while it is queued."""

    def trim(self, request: r.Trim) -> Trimmed:
        """Remove the keys that are not taken now."""
        trimmed, now = super().trim(request), self._now(request)
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

    def trim(self, request: r.Trim) -> Trimmed:
        """Put the keys that an earlier trim has kept back."""
        before = dict(self._space.keys)
        trimmed = super().trim(request)
        returned = {place: key for place, key in before.items() if place in self._kept - self._space.keys.keys()}
        self._space.keys.update(returned)
        self._kept = set(self._space.keys)
        return replace(trimmed, dedupe=trimmed.dedupe - len(returned))


class EstimateOmitsWaitingJobs(FaultyDriver):
    """An estimate has only the jobs that stand in lanes, not those that wait for their turn in a domain."""

    def counts(self, request: r.Counts) -> list[QueueCounts]:
        """Count one ready job of every domain."""
        rows = super().counts(request)
        return [replace(row, ready=min(row.ready, 1)) for row in rows] if request.estimate else rows


class EstimateIsAlwaysOne(FaultyDriver):
    """Every number is reported as an estimate, also that of a small space."""

    def counts(self, request: r.Counts) -> list[QueueCounts]:
        """Mark all rows."""
        rows = super().counts(request)
        return [replace(row, is_estimate=True) for row in rows] if request.estimate else rows


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
