"""Reserve: reap what is due, pick over the asked lanes, lease. Loops over lanes: SQLite has no LATERAL."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from holdfast.drivers.contract import REAP_LIMIT
from holdfast.drivers.sqlite.call import Call
from holdfast.drivers.sqlite.rows import Row, as_json, reservation, settings
from holdfast.drivers.sqlite.settle import reap
from holdfast.model.lease import Reservation, random_bits, tokens
from holdfast.model.order import Capacity, Lane, Limit, pick
from holdfast.model.queue_settings import Bucket


def reserve(
    call: Call,
    queues: Sequence[str],
    *,
    limit: int,
    lease_for: int,
    worker: str,
    types: Collection[str] | None,
) -> list[Reservation]:
    """See ``Driver.reserve``."""
    reap(call, queues, worker=None, limit=REAP_LIMIT)
    capacity = _capacity(call, queues)
    lanes = ((lane, _due(call, lane, limit)) for lane in _lanes_with_due_heads(call, queues, types))
    rows = pick(lanes, limit=limit, capacity=capacity)
    if not rows:
        return []
    _spend(call, capacity)
    return _lease(call, rows, call.now + lease_for, worker)


def _lanes_with_due_heads(call: Call, queues: Sequence[str], types: Collection[str] | None) -> Iterator[Lane]:
    asked = None if types is None else as_json(sorted(set(types)))
    for queue in queues:
        parameters = {"space": call.space, "queue": queue, "now": call.now}
        if asked is None:
            found = call.run("probe", parameters).fetchall()
        else:
            found = call.run("probe_types", {**parameters, "types": asked}).fetchall()
        yield from (Lane(*row) for row in found)


def _due(call: Call, lane: Lane, limit: int) -> Iterator[Row]:
    """Not even begun before it is read, and then read row by row."""
    yield from call.run("due", (call.space, lane.queue, lane.type, lane.priority, call.now, limit))


def _capacity(call: Call, queues: Sequence[str]) -> Capacity:
    capacity = Capacity()
    for row in call.run("limits", {"space": call.space, "queues": as_json(queues)}):
        queue, type_, *columns, level, level_at, inflight = row
        limits = settings(tuple(columns))
        bucket = None if level is None else Bucket(level, level_at)
        left = limits.allowance(inflight=inflight, bucket=bucket, now=call.now)
        capacity.limits[queue, type_ or None] = Limit(limits, bucket, left)
    return capacity


def is_limited(call: Call, queues: Sequence[str]) -> bool:
    """Whether not everything that is due in these queues may be reserved."""
    return any(limit.settings.limits(call.now) for limit in _capacity(call, queues).limits.values())


def _spend(call: Call, capacity: Capacity) -> None:
    rows = [
        (*bucket, call.space, queue, type_ or "")
        for (queue, type_), limit in capacity.limits.items()
        if limit.taken and (bucket := limit.bucket_after(call.now)) is not None
    ]
    if rows:
        call.run_many("spend", rows)


def _lease(call: Call, rows: list[tuple[Lane, Row]], expires_at: int, worker: str) -> list[Reservation]:
    first, bits = call.numbers(len(rows)), random_bits(len(rows))
    parameters = {
        "jobs": as_json(row[1] for _, row in rows),
        "first": first,
        "bits": bits,
        "expires_at": expires_at,
        "now": call.now,
        "worker": worker,
    }
    call.run("lease", parameters)
    noted = [row[2] for _, row in rows if row[-1]]
    checkpoints = _checkpoints(call, noted) if noted else {}
    return [
        reservation(lane, row, token=token, fence=fence, expires_at=expires_at, checkpoint=checkpoints.get(row[2]))
        for fence, (token, (lane, row)) in enumerate(
            zip(tokens(range(first, first + len(rows)), bits), rows, strict=True), first
        )
    ]


def _checkpoints(call: Call, ids: list[str]) -> dict[str, bytes | None]:
    return dict(call.run("checkpoints", {"space": call.space, "ids": as_json(ids)}).fetchall())


def next_due(call: Call, queues: Sequence[str]) -> int | None:
    """How long until a job of these queues may run, or a lease of theirs expires (0 or less: now); None if never."""
    asked = {"space": call.space, "queues": as_json(queues)}
    found = [*call.run("heads", asked), *call.run("first_expiry", asked)]
    instants = [instant for (instant,) in found if instant is not None]
    return min(instants) - call.now if instants else None
