"""The order in which jobs are reserved (L10), within the capacity that the settings of their queues allow."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, repeat
from typing import NamedTuple, TypeVar

from holdfast.model.isolation import Isolation
from holdfast.model.queue_settings import Bucket, QueueSettings

SettingsKey = tuple[str, str | None]  # a queue, or a type in a queue
KeyPlace = tuple[str, str]  # a queue, and the limit key of jobs in it


class Lane(NamedTuple):
    """Jobs of one queue, type and priority, isolated or not. A store keeps a lane sorted by (available_at, seq)."""

    queue: str
    type: str
    priority: int
    isolated: bool = False


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


@dataclass(slots=True)
class KeyLimit(Limit):
    """The limits of one key, with the number of its jobs in flight and of those that were passed over, ``refused``."""

    inflight: int = 0
    refused: int = 0

    def opens_at(self, now: int, *, after: int | None = None) -> int | None:
        """Return when the key allows one more job, after those that were taken, or after so many; ``now`` if it does.

        None if only the end of one of its jobs makes place.
        """
        count = self.taken if after is None else after
        most = self.settings.max_inflight
        if most is not None and self.inflight + count >= most:
            return None
        bucket = self.bucket
        if self.settings.rate is not None and count:
            bucket = self.settings.bucket_after(count, bucket, now)
        return self.settings.opens_at(bucket, now)


class KeyCapacity:
    """How many jobs the limits by key still allow. The limits of a key are looked up when its first job is met.

    ``find_limit`` returns the limits of a key; None if its queue does not limit jobs by their keys.
    """

    def __init__(self, find_limit: Callable[[KeyPlace], KeyLimit | None]) -> None:
        self._limits: dict[KeyPlace, KeyLimit | None] = {}
        self._find_limit = find_limit

    def __getitem__(self, place: KeyPlace) -> KeyLimit | None:
        """Return the limits of a key."""
        if place not in self._limits:
            self._limits[place] = self._find_limit(place)
        return self._limits[place]

    def used(self) -> Iterator[tuple[KeyPlace, KeyLimit]]:
        """Return the keys of which jobs were taken or passed over."""
        for place, limit in self._limits.items():
            if limit is not None and (limit.taken or limit.refused):
                yield place, limit

    def allows(self, place: KeyPlace) -> bool:
        """Whether the limits of this key allow one more job; if they do not, its job is passed over."""
        limit = self[place]
        if limit is None or limit.left > 0:
            return True
        limit.refused += 1
        return False

    def take(self, place: KeyPlace) -> None:
        """Count one job of this key as taken."""
        limit = self[place]
        if limit is not None:
            limit.left -= 1
            limit.taken += 1


DueJob = TypeVar("DueJob", bound=tuple[int, int] | tuple[object, ...])  # begins with (available_at, seq)


def pick(
    lanes: Iterable[tuple[Lane, Iterator[DueJob]]],
    *,
    limit: int,
    capacity: Capacity,
    isolation: Isolation = Isolation.SHARE,
    max_bytes: int | None = None,
    size_of: Callable[[DueJob], int] = lambda _: 0,
    keys: KeyCapacity | None = None,
    key_of: Callable[[DueJob], str | None] = lambda _: None,
) -> list[tuple[Lane, DueJob]]:
    """Return the first ``limit`` jobs over all lanes, by (priority desc, available_at, seq), within the capacity.

    With ``max_bytes``, stops before the job whose payload, of ``size_of(job)`` bytes, does not fit; the first job fits
    always. With ``keys``, passes over a job whose limit key, ``key_of(job)``, allows no more jobs. Each lane is an
    iterator over its due jobs in order. A lane is read only after all lanes of higher priorities are empty, and from
    each lane at most one job is read that is neither returned nor passed over.
    """
    if isolation is Isolation.SKIP:
        lanes = (item for item in lanes if not item[0].isolated)
    picks: list[tuple[Lane, DueJob]] = []
    total_bytes = 0
    for lane, job in _in_order(lanes, capacity):
        key = None if keys is None else key_of(job)
        if keys is not None and key is not None and not keys.allows((lane.queue, key)):
            continue
        ends_here = lane.isolated and isolation is not Isolation.SHARE
        if ends_here and (picks or isolation is Isolation.STOP):
            break
        if max_bytes is not None:
            total_bytes += size_of(job)
            if picks and total_bytes > max_bytes:
                break
        if capacity.limits:
            capacity.take(lane)
        if keys is not None and key is not None:
            keys.take((lane.queue, key))
        picks.append((lane, job))
        if ends_here or len(picks) == limit:
            break
    return picks


def _in_order(lanes: Iterable[tuple[Lane, Iterator[DueJob]]], capacity: Capacity) -> Iterator[tuple[Lane, DueJob]]:
    """Return the jobs of all lanes in order. A lane ends when there is no capacity for its next job."""
    by_priority = sorted(lanes, key=lambda item: -item[0].priority)
    for _, group in groupby(by_priority, key=lambda item: item[0].priority):
        yield from _merge(list(group), capacity)


def _merge(lanes: list[tuple[Lane, Iterator[DueJob]]], capacity: Capacity) -> Iterator[tuple[Lane, DueJob]]:
    """Return the jobs of lanes of one priority in order."""
    if len(lanes) == 1 and not capacity.limits:
        [(lane, jobs)] = lanes
        yield from zip(repeat(lane), jobs)
        return
    heads = [(job[0], job[1], index, job) for index, (_, jobs) in enumerate(lanes) if (job := next(jobs, None))]
    heapq.heapify(heads)
    while heads:
        _, _, index, job = heads[0]
        lane, jobs = lanes[index]
        if not capacity.allows(lane):
            heapq.heappop(heads)
            continue
        yield lane, job
        next_job = next(jobs, None)
        if next_job is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (next_job[0], next_job[1], index, next_job))
