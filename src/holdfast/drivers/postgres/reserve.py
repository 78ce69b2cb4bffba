"""Reserve and reap: one call of a function each, and one more after a lost answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.drivers.packing import Row
from holdfast.drivers.postgres.arrays import pack_texts
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.lost_answers import LostAnswers
from holdfast.drivers.postgres.rows import read_reservation
from holdfast.drivers.remembered_calls import RememberedCalls
from holdfast.model.isolation import Isolation
from holdfast.model.lease import Reservation, token_bytes


def reserve(
    database: Database,
    lost_answers: LostAnswers,
    expired: RememberedCalls[int],
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
    """See ``Driver.reserve``. Not repeated when the answer is lost: the next call releases what this one has leased.

    ``expired`` gets the transaction in which this call has ended expired leases.
    """
    lost_answers.release(database, caller_now)
    names, random_bytes = pack_texts(queues), token_bytes(limit)
    arguments = (
        caller_now,
        names,
        None if types is None else pack_texts(sorted(set(types))),
        limit,
        lease_for,
        worker,
        random_bytes,
        max_bytes,
        isolation.value,
        prefetch,
        True,
    )

    def call(connection: Connection) -> list[Row]:
        with lost_answers.watch(names, worker, random_bytes):
            return database.call_once(connection, "reserve", *arguments)

    rows = database.run(call, is_repeatable=False)
    if rows and rows[0][0] is None:  # no job, see reserve.sql
        expired.add(rows.pop(0)[1])
    return [read_reservation(row) for row in rows]


def reap(
    database: Database,
    expired: RememberedCalls[int],
    queues: Sequence[str] | None,
    caller_now: int | None,
    *,
    worker: str | None,
    limit: int,
) -> int:
    """See ``Driver.reap``. ``expired`` gets the transaction in which this call has ended leases."""
    packed = None if queues is None else pack_texts(queues)
    [(ended, xid)] = database.call("reap", packed, worker, limit, caller_now, with_xid=True)
    if ended:
        expired.add(xid)
    return int(ended)
