"""``SettleAndReserve``: settle, then lease the next jobs of the domains of the jobs that have ended."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from holdfast.drivers.memory.reserve import lease_rows, store_usage
from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.settle import settle_one
from holdfast.drivers.memory.space import Space
from holdfast.errors import LeaseError
from holdfast.model.isolation import Isolation
from holdfast.model.job import State
from holdfast.model.lease import Reservation
from holdfast.model.settlement import Settlement


def settle_and_reserve(
    space: Space,
    settlements: Sequence[Settlement],
    *,
    follow: Collection[str],
    queues: list[str],
    lease_for: int,
    worker: str,
    types: Collection[str] | None,
    max_bytes: int | None,
    isolation: Isolation,
    now: int,
) -> tuple[list[LeaseError | None], list[Reservation]]:
    """See ``SettleAndReserve.settle_and_reserve``."""
    answers, ended = [], []
    for settlement in settlements:
        row = space.rows.get(settlement.lease.job_id)
        was_inflight = row is not None and row.job.state is State.INFLIGHT
        answers.append(settle_one(space, settlement, now))
        if row is not None and was_inflight and row.job.state.has_ended and row.job.id in follow:
            ended.append(row)
    space.update_waits(now)
    rows = pick_next(space, ended, queues, types, max_bytes=max_bytes, isolation=isolation, now=now)
    return answers, lease_rows(space, rows, expires_at=now + lease_for, worker=worker, now=now)


def pick_next(
    space: Space,
    ended: Sequence[Row],
    queues: list[str],
    types: Collection[str] | None,
    *,
    max_bytes: int | None,
    isolation: Isolation,
    now: int,
) -> list[Row]:
    """Return the next jobs of the domains of ended jobs that ``reserve`` could return, within the capacity."""
    capacity, keys = space.capacity(queues, now), space.key_capacity(queues, now)
    due = [
        lane
        for lane, positions in space.lanes.items()
        if lane.queue in queues and (types is None or lane.type in types)
        if positions and positions[0][0] <= now and capacity.allows(lane)
    ]
    highest = max((lane.priority for lane in due), default=0)
    picked: list[Row] = []
    size = 0
    for row in _next_rows(space, ended):
        lane, key = row.lane, row.job.limit_key
        is_reservable = lane in due and row.available_at <= now and capacity.allows(lane)
        if not is_reservable or lane.priority < highest or (row.isolated and isolation is not Isolation.SHARE):
            continue
        if keys is not None and key is not None and not keys.allows((lane.queue, key)):
            continue
        size += len(row.job.payload)
        if picked and max_bytes is not None and size > max_bytes:
            break
        capacity.take(lane)
        if keys is not None and key is not None:
            keys.take((lane.queue, key))
        picked.append(row)
    store_usage(space, capacity, keys, now)
    return picked


def _next_rows(space: Space, ended: Sequence[Row]) -> Iterator[Row]:
    """Return the jobs that have the turn of the domains of ended jobs."""
    for row in ended:
        place = space.place_of(row.job)
        if place is not None and place in space.domains and (turn := space.domains[place].turn) is not None:
            yield space.rows[turn]
