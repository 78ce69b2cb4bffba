"""What is stored of a domain, and which of its jobs comes next (L11)."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.model import bounds
from holdfast.model.interval_set import IntervalSet
from holdfast.model.job import JobRecord
from holdfast.model.queue_settings import Gaps

Place = tuple[str, str]  # a queue, and a domain in it
OpenJob = tuple[int, int, str]  # (offset, seq, job id)

NO_OFFSET = bounds.MAX_OFFSET + 1  # sorts jobs without an offset after those with one


class Halt(NamedTuple):
    """The dead job that halted a domain, and when."""

    job_id: str
    at: int


class Wait(NamedTuple):
    """The missing offset that a domain waits for, and since when."""

    offset: int
    since: int


@dataclass(slots=True)
class Domain:
    """The open jobs of a domain in their order, and what the domain remembers of those that have ended."""

    jobs: list[OpenJob] = field(default_factory=list)  # sorted
    by_offset: dict[int, str] = field(default_factory=dict)  # the open jobs that have an offset
    turn: str | None = None  # the job that is in flight, or that stands in its lane
    ended: IntervalSet = field(default_factory=IntervalSet)
    start: int = 0
    halt: Halt | None = None

    @staticmethod
    def key(job: JobRecord, seq: int) -> OpenJob:
        """Return the place of a job in the order of the domain."""
        return (NO_OFFSET if job.offset is None else job.offset, seq, job.id)

    def add(self, job: JobRecord, seq: int) -> None:
        """Add an open job at its place."""
        insort(self.jobs, self.key(job, seq))
        if job.offset is not None:
            self.by_offset[job.offset] = job.id

    def remove(self, job: JobRecord, seq: int) -> None:
        """Remove a job that has ended."""
        del self.jobs[bisect_left(self.jobs, self.key(job, seq))]
        if job.offset is not None:
            del self.by_offset[job.offset]
            self.ended.add(job.offset)
        if self.turn == job.id:
            self.turn = None

    @property
    def position(self) -> int:
        """The smallest offset, from the start on, that has not ended."""
        return min(self.ended.first_missing(self.start), bounds.MAX_OFFSET)

    def gap(self, gaps: Gaps) -> int | None:
        """Return the missing offset before the first job, if the domain waits for missing offsets; else None."""
        if gaps is Gaps.PASS or not self.jobs or self.jobs[0][0] == NO_OFFSET:
            return None
        position = self.position
        return position if self.jobs[0][0] > position else None

    def next_job(self, gaps: Gaps) -> str | None:
        """Return the job that gets the turn when none is in flight; None if the domain is halted, waits or is empty."""
        if self.halt is not None or not self.jobs or self.gap(gaps) is not None:
            return None
        return self.jobs[0][2]

    @property
    def is_blank(self) -> bool:
        """Whether the domain is like one that never had a job."""
        return not self.jobs and not self.has_memory

    @property
    def has_memory(self) -> bool:
        """Whether something is stored beside the open jobs."""
        return bool(self.ended) or self.start > 0 or self.halt is not None
