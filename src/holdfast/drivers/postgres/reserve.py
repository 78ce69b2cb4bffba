"""Reserve and reap: one call of a function each, and one more after a lost answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

from msgspec.structs import replace

from holdfast.drivers.packing import Row
from holdfast.drivers.postgres.arrays import pack_texts
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.lost_answers import LostAnswers
from holdfast.drivers.postgres.rows import STORED_ID, read_reservation
from holdfast.drivers.postgres.settle import pack_settlements
from holdfast.drivers.remembered_calls import RememberedCalls
from holdfast.drivers.unreadable import UNREADABLE_ROUNDS, UnreadableJob, substitute_id
from holdfast.errors import StoreError
from holdfast.model.isolation import Isolation
from holdfast.model.lease import Lease, Reservation, token_bytes
from holdfast.model.settlement import Fail
from holdfast.model.transition import UNREADABLE


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
    """Lease up to ``limit`` due jobs of these queues, and of these types if given, for ``lease_for``.

    Not repeated when the answer is lost: the next call releases what this one has leased.

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

    for _ in range(UNREADABLE_ROUNDS):
        rows = database.run(call, is_repeatable=False)
        if rows and rows[0][0] is None:  # no job, see reserve.sql
            expired.add(rows.pop(0)[1])
        reservations = read_reservations(database, expired, rows, caller_now)
        if reservations or not rows:
            break
    return reservations


def read_reservations(
    database: Database, expired: RememberedCalls[int], rows: Sequence[Row], caller_now: int | None
) -> list[Reservation]:
    """Return the leased jobs in rows of ``reserve``, and make those that cannot be read dead letters (L9).

    If the store fails meanwhile, the leases of the latter expire, and a later reserve tries again.
    """
    reservations: list[Reservation] = []
    unreadable: list[tuple[Row, UnreadableJob]] = []
    for row in rows:
        try:
            reservations.append(read_reservation(row))
        except UnreadableJob as job:
            unreadable.append((row, job))
    if unreadable:
        with suppress(StoreError):
            expired.add(
                database.run(
                    lambda connection: _bury(database, connection, unreadable, caller_now), is_repeatable=False
                )
            )
    return reservations


def _bury(
    database: Database, connection: Connection, unreadable: Sequence[tuple[Row, UnreadableJob]], caller_now: int | None
) -> int:
    """Make leased jobs dead letters, in one transaction; return its number."""
    settlements = []
    with connection.transaction():
        for row, job in unreadable:
            token, fence, expires_at, *_ = row
            lease = Lease(job_id=row[STORED_ID], token=token, fence=fence, expires_at=expires_at)
            if job.has_no_id:
                lease = replace(lease, job_id=substitute_id(fence))
                parameters = {"id": lease.job_id, "stored": row[STORED_ID], "token": token}
                database.query_on(connection, "reserve/replace_id", parameters)
            settlements.append(Fail(lease, UNREADABLE, job.problem))
        database.call_on(connection, "settle", caller_now, *pack_settlements(settlements, []))
        [(xid,)] = database.query_on(connection, "reserve/transaction", {})
    return int(xid)


def reap(
    database: Database,
    expired: RememberedCalls[int],
    queues: Sequence[str] | None,
    caller_now: int | None,
    *,
    worker: str | None,
    limit: int,
) -> int:
    """End up to ``limit`` expired leases, oldest first, in these queues or in all; return how many.

    ``expired`` gets the transaction in which this call has ended leases.
    """
    packed = None if queues is None else pack_texts(queues)
    [(ended, xid)] = database.call("reap", packed, worker, limit, caller_now, with_xid=True)
    if ended:
        expired.add(xid)
    return int(ended)
