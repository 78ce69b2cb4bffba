"""The order in which jobs are reserved (L10), within the capacity that the settings of their queues allow."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import NamedTuple, TypeVar

from holdfast.model.queue_settings import Bucket, QueueSettings

SettingsKey = tuple[str, str | None]  # a queue, or a type in a queue


class Lane(NamedTuple):
    """Jobs of one queue, type and priority. A store keeps each lane sorted by (available_at, seq)."""

    queue: str
    type: str
    priority: int


@dataclass(slots=True)
class Limit:
    """The settings of a queue or a type, and how many jobs they still allow."""

    settings: QueueSettings
    bucket: Bucket | None
    left: int
    taken: int = 0

    def bucket_after(self, now: int) -> Bucket | None:
        """Return the rate bucket after the jobs that were taken; unchanged if none was taken."""
        if self.settings.rate is None or not self.taken:
            return self.bucket
        return self.settings.bucket_after(self.taken, self.bucket, now)


@dataclass(slots=True)
class Capacity:
    """How many jobs the settings still allow. Queues and types without settings are not limited."""

    limits: dict[SettingsKey, Limit] = field(default_factory=dict)

    def allows(self, lane: Lane) -> bool:
        """Whether the settings of its queue and of its type allow one more job of this lane."""
        return all(limit.left > 0 for limit in self._limits_of(lane))

    def opens_at(self, lane: Lane, now: int) -> int:
        """Return when pauses and rates allow the next job of this lane; ``now`` if they allow one already."""
        return max((limit.settings.opens_at(limit.bucket, now) for limit in self._limits_of(lane)), default=now)

    def take(self, lane: Lane) -> None:
        """Count one job of this lane as taken."""
        for limit in self._limits_of(lane):
            limit.left -= 1
            limit.taken += 1

    def _limits_of(self, lane: Lane) -> Iterator[Limit]:
        for key in ((lane.queue, None), (lane.queue, lane.type)):
            if key in self.limits:
                yield self.limits[key]


DueJob = TypeVar("DueJob", bound=tuple[int, int] | tuple[object, ...])  # begins with (available_at, seq)


def pick(
    lanes: Iterable[tuple[Lane, Iterator[DueJob]]], *, limit: int, capacity: Capacity
) -> list[tuple[Lane, DueJob]]:
    """Return the first ``limit`` jobs over all lanes, by (priority desc, available_at, seq), within the capacity.

    Each lane is an iterator over its due jobs in order. A lane is read only after all lanes of higher priorities are
    empty, and from each lane at most one job is read that is not returned.
    """
    picks: list[tuple[Lane, DueJob]] = []
    by_priority = sorted(lanes, key=lambda item: -item[0].priority)
    for _, group in groupby(by_priority, key=lambda item: item[0].priority):
        if len(picks) < limit:
            picks += _merge(list(group), limit - len(picks), capacity)
    return picks


def _merge(lanes: list[tuple[Lane, Iterator[DueJob]]], limit: int, capacity: Capacity) -> list[tuple[Lane, DueJob]]:
    """Return the first jobs over lanes of one priority."""
    if len(lanes) == 1 and not capacity.limits:
        [(lane, jobs)] = lanes
        return [(lane, job) for job in islice(jobs, limit)]
    heads = [(job[0], job[1], index, job) for index, (_, jobs) in enumerate(lanes) if (job := next(jobs, None))]
    heapq.heapify(heads)
    picks: list[tuple[Lane, DueJob]] = []
    while heads and len(picks) < limit:
        _, _, index, job = heads[0]
        lane, jobs = lanes[index]
        if not capacity.allows(lane):
            heapq.heappop(heads)
            continue
        capacity.take(lane)
        picks.append((lane, job))
        next_job = next(jobs, None)
        if next_job is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (next_job[0], next_job[1], index, next_job))
    return picks
