"""Settle, and lease the next jobs of the domains whose jobs have ended, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.drivers.packing import Row, to_json
from holdfast.drivers.sqlite import reserve
from holdfast.drivers.sqlite.domains import Place
from holdfast.drivers.sqlite.limit_keys import KeyedReserve
from holdfast.drivers.sqlite.rows import LIMIT_KEY, PAYLOAD
from holdfast.drivers.sqlite.settle import settle_batch
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.errors import LeaseError
from holdfast.model.isolation import Isolation
from holdfast.model.lease import Reservation
from holdfast.model.order import KeyCapacity, Lane
from holdfast.model.settlement import Settlement

Candidate = tuple[Lane, Row]


def settle_and_reserve(
    tx: Transaction,
    settlements: Sequence[Settlement],
    *,
    follow: Collection[str],
    queues: Sequence[str],
    lease_for: int,
    worker: str,
    types: Collection[str] | None,
    max_bytes: int | None,
    isolation: Isolation,
) -> tuple[list[LeaseError | None], list[Reservation]]:
    """See ``SettleAndReserve.settle_and_reserve``."""
    ended: dict[str, Place] = {}
    answers = settle_batch(tx, settlements, ended)
    followed = dict.fromkeys(
        ended[job_id]
        for job_id in (settlement.lease.job_id for settlement in settlements)
        if job_id in ended and job_id in follow and ended[job_id][0] in queues
    )
    candidates = _find_candidates(tx, list(followed), types, isolation)
    if not candidates:
        return answers, []
    capacity = reserve.read_capacity(tx, queues)
    keyed = KeyedReserve(tx, capacity.keyed)
    keyed.unpark(1)  # a settlement may have made a place for a job of a higher priority
    due = (lane.priority for lane in reserve.find_lanes(tx, queues, types) if capacity.allows(lane))
    highest = max(due, default=0)
    keys = keyed.capacity()
    picks = _pick([(lane, row) for lane, row in candidates if lane.priority >= highest], capacity, keys, max_bytes)
    if not picks:
        return answers, []
    reserve.spend(tx, capacity)
    keyed.spend(keys)
    return answers, reserve.lease(tx, picks, tx.now + lease_for, worker, prefetched=False)


def _find_candidates(
    tx: Transaction, domains: list[Place], types: Collection[str] | None, isolation: Isolation
) -> list[Candidate]:
    """Return the next job of each domain, if it is due and one that the caller takes."""
    if not domains:
        return []
    rows = tx.run("reserve/due_of_domains", {"space": tx.space, "domains": to_json(domains), "now": tx.now})
    candidates = [(reserve.read_lane(row[:4]), row[4:]) for row in rows]
    return [
        (lane, row)
        for lane, row in candidates
        if (types is None or lane.type in types) and (isolation is Isolation.SHARE or not lane.isolated)
    ]


def _pick(
    candidates: list[Candidate], capacity: reserve.StoredCapacity, keys: KeyCapacity, max_bytes: int | None
) -> list[Candidate]:
    """Return the jobs that the settings allow, in order, up to the byte budget."""
    picks: list[Candidate] = []
    total_bytes = 0
    for lane, row in candidates:
        key = row[LIMIT_KEY]
        if not capacity.allows(lane) or not (key is None or keys.allows((lane.queue, key))):
            continue
        total_bytes += len(row[PAYLOAD])
        if picks and max_bytes is not None and total_bytes > max_bytes:
            break
        capacity.take(lane)
        if key is not None:
            keys.take((lane.queue, key))
        picks.append((lane, row))
    return picks
