"""Reserve: end expired leases, pick the first due jobs over the requested lanes, lease them.

The lanes are read in a loop of statements, because SQLite has no LATERAL join.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.drivers.packing import Row, read_settings, to_json
from holdfast.drivers.requests import REAP_LIMIT, Reserve, distinct
from holdfast.drivers.sqlite.domains import begin_gaps, pass_gaps
from holdfast.drivers.sqlite.limit_keys import KeyedReserve
from holdfast.drivers.sqlite.rows import ID, LIMIT_KEY, NOTED, PAYLOAD, SEQ, read_reservation
from holdfast.drivers.sqlite.settle import bury, reap
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.drivers.unreadable import UNREADABLE_ROUNDS, UnreadableJob
from holdfast.model.isolation import Isolation
from holdfast.model.lease import Reservation, make_tokens, token_bytes
from holdfast.model.order import Capacity, KeyCapacity, Lane, Limit, pick
from holdfast.model.queue_settings import Bucket, Gaps, QueueSettings

PASS_LIMIT = 1_000  # jobs of full keys that one pick passes over in a lane
PICK_ROUNDS = 5


def reserve(tx: Transaction, request: Reserve) -> list[Reservation]:
    """End expired leases, and lease the first due jobs."""
    queues = distinct(request.queues)
    reap(tx, queues, worker=None, limit=REAP_LIMIT)
    for _ in range(UNREADABLE_ROUNDS):
        rows = _take(tx, request, queues)
        if not rows:
            break
        is_alone = rows[0][0].isolated and request.isolation is not Isolation.SHARE
        prefetched = request.prefetch and not is_alone
        reservations = lease(tx, rows, tx.now + request.lease_for, request.worker, prefetched=prefetched)
        if reservations:
            return reservations
    return []


def _take(tx: Transaction, request: Reserve, queues: Sequence[str]) -> list[tuple[Lane, Row]]:
    """Return the jobs to lease, and store what that takes from the limits."""
    capacity = read_capacity(tx, queues)
    for queue in capacity.arrived:
        begin_gaps(tx, queue)
    for queue, waited_for in capacity.passes.items():
        pass_gaps(tx, queue, waited_for)
    if capacity.keyed:
        rows, capacity = _pick_within_keys(tx, request, queues, capacity)
    else:
        rows = _pick(tx, request, queues, capacity)
    if rows:
        if request.max_bytes is not None or capacity.keyed:
            rows = _with_payloads(tx, rows)
        spend(tx, capacity)
    return rows


@dataclass(slots=True)
class StoredCapacity(Capacity):
    """What the settings allow, and what reserve must look at: keys, and domains that wait for offsets."""

    keyed: dict[str, QueueSettings] = field(default_factory=dict)
    arrived: list[str] = field(default_factory=list)  # queues with jobs that begin or end the wait of a domain
    passes: dict[str, int] = field(default_factory=dict)  # by queue: how long a domain waits before it passes a gap


def _pick(
    tx: Transaction, request: Reserve, queues: Sequence[str], capacity: Capacity, keys: KeyCapacity | None = None
) -> list[tuple[Lane, Row]]:
    """Return the first due jobs, within the capacity. With ``keys`` or a byte budget, they have sizes, not payloads."""
    due = "reserve/due" if request.max_bytes is None and keys is None else "reserve/due_sizes"
    heads_only = request.isolation is not Isolation.SHARE and keys is None
    most = request.limit if keys is None else request.limit + PASS_LIMIT
    lanes = (
        (lane, _read_due(tx, due, lane, 1 if lane.isolated and heads_only else most))
        for lane in find_lanes(tx, queues, request.types)
    )
    return pick(
        lanes,
        limit=request.limit,
        capacity=capacity,
        isolation=request.isolation,
        max_bytes=request.max_bytes,
        size_of=lambda row: row[PAYLOAD],
        keys=keys,
        key_of=lambda row: row[LIMIT_KEY],
    )


def _pick_within_keys(
    tx: Transaction, request: Reserve, queues: Sequence[str], capacity: StoredCapacity
) -> tuple[list[tuple[Lane, Row]], StoredCapacity]:
    """Like ``_pick``, and park the jobs whose keys have no place. Returns the jobs and what is left of the capacity."""
    keyed = KeyedReserve(tx, capacity.keyed)
    keyed.unpark(request.limit)
    for round_ in range(PICK_ROUNDS):
        if round_:
            capacity = read_capacity(tx, queues)
        keys = keyed.capacity()
        rows = _pick(tx, request, queues, capacity, keys)
        passed_over = keyed.park(keys, [row[SEQ] for _, row in rows])
        if passed_over < PASS_LIMIT or keyed.is_behind:
            break  # else the answer may lack jobs that are behind those that were passed over
    keyed.spend(keys)
    return rows, capacity


def find_lanes(tx: Transaction, queues: Sequence[str], types: Collection[str] | None) -> Iterator[Lane]:
    """Return the lanes of these queues and types that have a due job."""
    type_list = None if types is None else to_json(sorted(set(types)))
    for queue in queues:
        parameters = {"space": tx.space, "queue": queue, "now": tx.now}
        if type_list is None:
            rows = tx.run("reserve/find_lanes", parameters).fetchall()
        else:
            rows = tx.run("reserve/find_lanes_of_types", {**parameters, "types": type_list}).fetchall()
        yield from (read_lane(row) for row in rows)


def read_lane(row: Row) -> Lane:
    """Return the lane in a row of its columns."""
    queue, type_, priority, isolated = row
    return Lane(queue, type_, priority, bool(isolated))


def _read_due(tx: Transaction, statement: str, lane: Lane, limit: int) -> Iterator[Row]:
    """Read the due jobs of a lane, row by row; a lane from which ``pick`` takes nothing is not read at all."""
    yield from tx.run(statement, (tx.space, *lane, tx.now, limit))


def _with_payloads(tx: Transaction, rows: list[tuple[Lane, Row]]) -> list[tuple[Lane, Row]]:
    """Replace the sizes in rows of ``reserve/due_sizes`` by the payloads."""
    payloads: dict[int, bytes] = dict(tx.run("reserve/payloads", {"jobs": to_json(row[SEQ] for _, row in rows)}))
    return [(lane, (*row[:PAYLOAD], payloads[row[SEQ]], *row[PAYLOAD + 1 :])) for lane, row in rows]


def read_capacity(tx: Transaction, queues: Sequence[str]) -> StoredCapacity:
    """Return what the settings of these queues allow now."""
    capacity = StoredCapacity()
    for row in tx.run("reserve/limits", {"space": tx.space, "queues": to_json(queues)}):
        queue, type_, *columns, level, level_at, keyed, arrived, inflight = row
        settings = read_settings(columns)
        bucket = None if level is None else Bucket(level, level_at)
        left = settings.allowance(inflight=inflight, bucket=bucket, now=tx.now)
        capacity.limits[queue, type_ or None] = Limit(settings, bucket, left)
        if keyed:
            capacity.keyed[queue] = settings
        if arrived:
            capacity.arrived.append(queue)
        if settings.gaps is Gaps.WAIT and settings.gap_pass_after is not None:
            capacity.passes[queue] = settings.gap_pass_after
    return capacity


def is_limited(tx: Transaction, queues: Sequence[str]) -> bool:
    """Whether a pause or a limit of these queues may keep due jobs from being reserved."""
    return any(limit.settings.is_limiting(tx.now) for limit in read_capacity(tx, queues).limits.values())


def spend(tx: Transaction, capacity: Capacity) -> None:
    """Store the rate buckets that this reserve has taken from."""
    rows = [
        (*bucket, tx.space, queue, type_ or "")
        for (queue, type_), limit in capacity.limits.items()
        if limit.taken and (bucket := limit.bucket_after(tx.now)) is not None
    ]
    if rows:
        tx.run_many("reserve/spend", rows)


def lease(
    tx: Transaction, rows: list[tuple[Lane, Row]], expires_at: int, worker: str, *, prefetched: bool
) -> list[Reservation]:
    """Lease ready jobs, rows of ``reserve/due``. Those that cannot be read are dead letters afterwards."""
    first, bits = tx.next_numbers(len(rows)), token_bytes(len(rows))
    parameters = {
        "jobs": to_json(row[SEQ] for _, row in rows),
        "first": first,
        "bits": bits,
        "expires_at": expires_at,
        "now": tx.now,
        "worker": worker,
        "prefetched": prefetched,
    }
    tx.run("reserve/lease", parameters)
    noted_ids = [row[ID] for _, row in rows if row[NOTED]]
    noted = {"space": tx.space, "ids": to_json(noted_ids)}
    checkpoints = dict(tx.run("reserve/checkpoints", noted).fetchall()) if noted_ids else {}
    fences = range(first, first + len(rows))
    reservations: list[Reservation] = []
    unreadable: list[tuple[int, int, UnreadableJob]] = []
    for fence, token, (lane, row) in zip(fences, make_tokens(fences, bits), rows, strict=True):
        checkpoint = checkpoints.get(row[ID])
        try:
            reservations.append(
                read_reservation(lane, row, token=token, fence=fence, expires_at=expires_at, checkpoint=checkpoint)
            )
        except UnreadableJob as job:
            unreadable.append((row[SEQ], fence, job))
    if unreadable:
        bury(tx, unreadable)
    return reservations


def time_until_due(tx: Transaction, queues: Sequence[str], after: int | None = None) -> int | None:
    """Return the time until a job of these queues can be reserved or a lease expires; None if there is neither.

    A job can be reserved when it is due, when its domain has passed a gap, and when the pause and the rate of its
    queue, type and key allow it. 0 or less means that this instant has passed. Only instants later than ``after``
    count.
    """
    parameters = {"space": tx.space, "queues": to_json(queues)}
    heads = [(read_lane(row[:-1]), row[-1]) for row in tx.run("wait/lane_heads", parameters) if row[-1] is not None]
    expiries = [expiry for (expiry,) in tx.run("wait/first_expiry", parameters) if expiry is not None]
    wakes = [(Lane(queue, "", 0), wake) for queue, wake in tx.run("wait/first_wake", parameters) if wake is not None]
    waits: dict[str, int] = {
        queue: waiting_since
        for queue, waiting_since in tx.run("wait/first_gap", parameters)
        if waiting_since is not None
    }
    capacity = read_capacity(tx, queues) if heads or wakes or waits else StoredCapacity()
    heads += [(Lane(queue, "", 0), waits[queue] + wait) for queue, wait in capacity.passes.items() if queue in waits]
    wakes += [(Lane(queue, "", 0), tx.now) for queue in capacity.arrived]
    since = tx.now if after is None else min(after, tx.now)
    allowed = (max(head, capacity.opens_at(lane, since)) for lane, head in heads)
    instants = [instant for instant in (*allowed, *expiries) if after is None or instant > after]
    # A key is woken, and a domain has arrived, until a reserve has looked at it: none has done so since this instant.
    instants += (max(wake, capacity.opens_at(lane, since)) for lane, wake in wakes)
    return min(instants) - tx.now if instants else None
