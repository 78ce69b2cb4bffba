"""Reserve: end expired leases, pick the first due jobs over the requested lanes, lease them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.settle import end_leases
from holdfast.drivers.memory.space import Position, Space
from holdfast.drivers.requests import REAP_LIMIT, Reserve, distinct
from holdfast.model.isolation import Isolation
from holdfast.model.lease import Lease, Reservation, make_tokens, token_bytes
from holdfast.model.order import KeyCapacity, pick


def reserve(space: Space, request: Reserve, now: int) -> list[Reservation]:
    """End expired leases, and lease the first due jobs."""
    queues = distinct(request.queues)
    end_leases(space, space.expired(queues, now)[:REAP_LIMIT], now)
    space.find_gaps(queues, now)
    rows = pick_rows(
        space, queues, request.types, request.limit, now, max_bytes=request.max_bytes, isolation=request.isolation
    )
    return lease_rows(
        space,
        rows,
        expires_at=now + request.lease_for,
        worker=request.worker,
        now=now,
        prefetched=is_prefetched(rows, request.isolation, prefetch=request.prefetch),
    )


def pick_rows(
    space: Space,
    queues: list[str],
    types: Collection[str] | None,
    limit: int,
    now: int,
    *,
    max_bytes: int | None = None,
    isolation: Isolation = Isolation.SHARE,
) -> list[Row]:
    """Return the first due rows over all lanes of these queues and types, within the capacity (L10)."""
    capacity, keys = space.capacity(queues, now), space.key_capacity(queues, now)
    lanes = [
        (lane, space.due(lane, now))
        for lane in space.lanes
        if lane.queue in queues and (types is None or lane.type in types)
    ]
    picked = pick(
        lanes,
        limit=limit,
        capacity=capacity,
        isolation=isolation,
        max_bytes=max_bytes,
        size_of=lambda position: len(space.rows[position[2]].job.payload),
        keys=keys,
        key_of=lambda position: space.rows[position[2]].job.limit_key,
    )
    for key, limits in capacity.limits.items():
        space.buckets[key] = limits.bucket_after(now)
    if keys is not None:
        space.store_buckets(keys, now)
    return [space.rows[job_id] for _, (_, _, job_id) in picked]


def is_prefetched(rows: Sequence[Row], isolation: Isolation, *, prefetch: bool) -> bool:
    """Whether the leases of these rows count as prefetched: never that of an isolated job that is returned alone."""
    return prefetch and (isolation is Isolation.SHARE or not any(row.isolated for row in rows))


def lease_rows(
    space: Space, rows: Sequence[Row], *, expires_at: int, worker: str, now: int, prefetched: bool = False
) -> list[Reservation]:
    """Lease ready rows, each with the next fence and a new token (L4)."""
    first = space.next_numbers(len(rows))
    fences = range(first, first + len(rows))
    reservations = []
    for row, fence, token in zip(rows, fences, make_tokens(fences, token_bytes(len(rows))), strict=True):
        lease = Lease(job_id=row.job.id, token=token, fence=fence, expires_at=expires_at)
        isolated = row.isolated
        space.lease(row, lease, worker, now, prefetched=prefetched)
        checkpoint = None if row.note is None else row.note.checkpoint
        reservations.append(Reservation(job=row.job, lease=lease, checkpoint=checkpoint, isolated=isolated))
    return reservations


def next_instant(space: Space, queues: list[str], after: int) -> int | None:
    """Return the first instant later than ``after`` at which a job of these queues is allowed or a lease expires.

    A job is allowed when it is due and when the pause and the rate of its queue, of its type and of its key allow it.
    """
    capacity, keys = space.capacity(queues, after), space.key_capacity(queues, after)
    heads = [
        max(position[0], capacity.opens_at(lane, after), opens_at)
        for lane, positions in space.lanes.items()
        if lane.queue in queues
        for position in (positions[:1] if keys is None else positions)
        if (opens_at := _key_opens_at(space, position, keys, after)) is not None
    ]
    passes = [pass_at for _, pass_at in space.passes(queues)]
    expiries = [positions[0][0] for queue, positions in space.leases.items() if positions and queue in queues]
    return min((instant for instant in (*heads, *passes, *expiries) if instant > after), default=None)


def _key_opens_at(space: Space, position: Position, keys: KeyCapacity | None, now: int) -> int | None:
    """Return when the key of a job allows it; None if only the end of another job of the key does."""
    job = space.rows[position[2]].job
    limit = None if keys is None or job.limit_key is None else keys[job.queue, job.limit_key]
    return now if limit is None else limit.opens_at(now)
