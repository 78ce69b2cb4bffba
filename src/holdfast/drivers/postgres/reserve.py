"""Reserve and reap: one call of a function each."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.drivers.postgres.arrays import pack_texts
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.rows import read_reservation
from holdfast.model.isolation import Isolation
from holdfast.model.lease import Reservation, token_bytes


def reserve(
    database: Database,
    queues: Sequence[str],
    caller_now: int | None,
    *,
    limit: int,
    lease_for: int,
    worker: str,
    types: Collection[str] | None,
    max_bytes: int | None,
    isolation: Isolation,
    prefetch: bool,
) -> list[Reservation]:
    """See ``Driver.reserve``. Not repeated when the reply is lost: leases that it may have granted expire."""
    rows = database.call(
        "reserve",
        pack_texts(queues),
        None if types is None else pack_texts(sorted(set(types))),
        limit,
        lease_for,
        worker,
        token_bytes(limit),
        max_bytes,
        isolation.value,
        prefetch,
        caller_now,
        is_repeatable=False,
    )
    return [read_reservation(row) for row in rows]


def reap(
    database: Database, queues: Sequence[str] | None, caller_now: int | None, *, worker: str | None, limit: int
) -> int:
    """See ``Driver.reap``."""
    packed = None if queues is None else pack_texts(queues)
    [(ended,)] = database.call("reap", packed, worker, limit, caller_now)
    return int(ended)
