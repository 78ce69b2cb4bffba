"""The one order in which jobs are handed out (law L10), within what a queue's settings leave capacity for."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import NamedTuple, TypeVar

from holdfast.model.queue_settings import Bucket, QueueSettings

SettingsKey = tuple[str, str | None]  # a queue, or a type in a queue


class Lane(NamedTuple):
    """Jobs that differ only in when they came: what a store keeps sorted."""

    queue: str
    type: str
    priority: int


@dataclass(slots=True)
class Limit:
    """The settings of a queue or a type, and how far they are used up."""

    settings: QueueSettings
    bucket: Bucket | None
    left: int
    taken: int = 0

    def bucket_after(self, now: int) -> Bucket | None:
        """The rate bucket once what was taken is paid for; the same one if nothing was."""
        if self.settings.rate is None or not self.taken:
            return self.bucket
        return self.settings.bucket_after(self.taken, self.bucket, now)


@dataclass(slots=True)
class Capacity:
    """What the settings leave, counted down as jobs are taken. Queues and types without settings have capacity."""

    limits: dict[SettingsKey, Limit] = field(default_factory=dict)

    def has(self, lane: Lane) -> bool:
        """Whether one more job of this lane fits its queue and its type."""
        return all(limit.left > 0 for limit in self._of(lane))

    def take(self, lane: Lane) -> None:
        """Count one job of this lane."""
        for limit in self._of(lane):
            limit.left -= 1
            limit.taken += 1

    def _of(self, lane: Lane) -> Iterator[Limit]:
        for key in ((lane.queue, None), (lane.queue, lane.type)):
            if key in self.limits:
                yield self.limits[key]


Waiting = TypeVar("Waiting", bound=tuple[int, int] | tuple[object, ...])  # begins with (available_at, seq)


def pick(
    lanes: Iterable[tuple[Lane, Iterator[Waiting]]], *, limit: int, capacity: Capacity
) -> list[tuple[Lane, Waiting]]:
    """The first ``limit`` jobs over all lanes, by (priority desc, available_at, seq), skipping lanes without capacity.

    Each lane comes as an iterator of its due jobs in order. Lanes of a lower priority are not read before the higher
    ones are empty, and none is read further than one job past what is taken from it.
    """
    taken: list[tuple[Lane, Waiting]] = []
    by_priority = sorted(lanes, key=lambda item: -item[0].priority)
    for _, group in groupby(by_priority, key=lambda item: item[0].priority):
        if len(taken) < limit:
            taken += _merged(list(group), limit - len(taken), capacity)
    return taken


def _merged(lanes: list[tuple[Lane, Iterator[Waiting]]], limit: int, capacity: Capacity) -> list[tuple[Lane, Waiting]]:
    """The first jobs over lanes of one priority."""
    if len(lanes) == 1 and not capacity.limits:
        [(lane, jobs)] = lanes
        return [(lane, job) for job in islice(jobs, limit)]
    heads = [(job[0], job[1], number, job) for number, (_, jobs) in enumerate(lanes) if (job := next(jobs, None))]
    heapq.heapify(heads)
    taken: list[tuple[Lane, Waiting]] = []
    while heads and len(taken) < limit:
        _, _, number, job = heads[0]
        lane, jobs = lanes[number]
        if not capacity.has(lane):
            heapq.heappop(heads)
            continue
        capacity.take(lane)
        taken.append((lane, job))
        following = next(jobs, None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following[0], following[1], number, following))
    return taken
