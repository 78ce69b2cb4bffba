"""The tools of operators, and the registry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.clock import DAY
from holdfast.drivers.contract import QueueCounts, Trimmed
from holdfast.model.job import State
from holdfast.model.ledger import Ending
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change, Entry
from holdfast.testing.drivers.oracle.facts import gone
from holdfast.testing.drivers.oracle.verbs import Verbs


@dataclass(slots=True)
class Oracle(Verbs):
    """Everything that a store answers, for one space."""

    def cancel(self, job_ids: Sequence[str], *, now: int) -> list[State | None]:
        """Ready jobs end, running ones are asked to stop."""
        answers: list[State | None] = []
        for job in map(self.jobs.get, job_ids):
            if job is not None and job.state is State.READY:
                self._end(job, Ending.CANCELLED, State.CANCELLED, now)
            elif job is not None and job.state is State.INFLIGHT:
                job.cancel_requested = True
            answers.append(None if job is None else job.state)
        return answers

    def requeue(self, job_ids: Sequence[str], *, now: int) -> list[bool]:
        """Dead and cancelled jobs arrive again, last in line, with their history."""
        answers: list[bool] = []
        for old in map(self.jobs.get, job_ids):
            again = old is not None and old.state in (State.DEAD, State.CANCELLED)
            answers.append(again)
            if old is not None and again:
                self._end(old, Ending.REQUEUED, State.READY, now)
                record = replace(old.record, attempts=0, crashes=0, run_at=None, dead_reason=None, dead_at=None)
                job = self._arrive(record, enqueued_at=old.enqueued_at, available_at=now)
                job.last, job.progress, job.checkpoint = old.last, old.progress, old.checkpoint
        return answers

    def purge(self, job_ids: Sequence[str], *, now: int) -> list[bool]:
        """Ended jobs are forgotten, but not by the ledger."""
        answers: list[bool] = []
        for job in map(self.jobs.get, job_ids):
            ended = job is not None and job.state.has_ended
            answers.append(ended)
            if job is not None and ended:
                self._end(job, Ending.PURGED, None, now)
                del self.jobs[job.record.id]
        return answers

    def trim(self, *, ended_for: int = 7 * DAY, ledger_for: int = 30 * DAY, now: int) -> Trimmed:
        """Everything old enough goes, except dead letters."""
        jobs = [
            job.record.id
            for job in self.jobs.values()
            if job.state in (State.DONE, State.CANCELLED)
            and job.ended_at is not None
            and now - job.ended_at >= ended_for
        ]
        for job_id in jobs:
            del self.jobs[job_id]
        rows = len([row for row in self.ledger if now - row.ended_at >= ledger_for])
        del self.ledger[:rows]  # they stand in order of time, so the old ones are the first
        self.trimmed += rows
        keys = [place for place, key in self.keys.items() if not self._holds(key, now) and key.job_id not in self.jobs]
        for place in keys:
            del self.keys[place]
        entries = [place for place, entry in self.registry.items() if gone(entry, now)]
        for of in entries:
            del self.registry[of]
        return Trimmed(jobs=len(jobs), ledger=rows, dedupe=len(keys), registry=len(entries))

    def configure(self, queue: str, settings: QueueSettings, *, type: str | None = None) -> None:
        """Replace the settings of a queue, or of a type in it."""
        self.settings[queue, type] = settings

    def counts(self, *, now: int) -> list[QueueCounts]:
        """How many jobs of each type stand where."""
        words: dict[tuple[str, str], list[str]] = {}
        for job in self.jobs.values():
            scheduled = job.state is State.READY and job.available_at > now
            word = "scheduled" if scheduled else job.state.value
            words.setdefault((job.record.queue, job.record.type), []).append(word)
        return [
            QueueCounts(queue=queue, type=type_, **{word: found.count(word) for word in found})
            for (queue, type_), found in sorted(words.items())
        ]

    # Registry -----------------------------------------------------------------------------------------------

    def read(self, kind: str, keys: Sequence[str], *, now: int) -> list[Entry | None]:
        """The rows that have not expired."""
        return [self._entry(kind, key, now) for key in keys]

    def write(self, changes: Sequence[Change], *, now: int) -> list[Entry | None]:
        """Each change that expected what is there; a change sees the ones before it."""
        return [self._change(change, now) if self._expected(change, now) else None for change in changes]

    def scan(self, kind: str, *, now: int) -> list[Entry]:
        """The rows of a kind, by key."""
        keys = sorted(key for of, key in self.registry if of == kind)
        return [entry for entry in self.read(kind, keys, now=now) if entry is not None]
