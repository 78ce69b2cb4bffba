"""Reserve and reap: one call of a function each, and one more after a lost answer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from holdfast.drivers.packing import Row
from holdfast.drivers.postgres.arrays import pack_texts
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.lost_answers import LostAnswers
from holdfast.drivers.postgres.rows import STORED_ID, read_reservation
from holdfast.drivers.postgres.settle import pack_settlements
from holdfast.drivers.requests import Reap, Reserve, distinct
from holdfast.drivers.unreadable import UNREADABLE_ROUNDS, UnreadableJob, substitute_id
from holdfast.errors import StoreError
from holdfast.model.lease import Lease, Reservation, token_bytes
from holdfast.model.settlement import Fail
from holdfast.model.transition import UNREADABLE


def reserve(database: Database, lost_answers: LostAnswers, request: Reserve) -> tuple[list[Reservation], list[int]]:
    """Return the leased jobs, and the transactions in which this call has ended leases.

    Not repeated when the answer is lost: the next call releases what this one has leased.
    """
    lost_answers.release(database, request.now)
    names, random_bytes = pack_texts(distinct(request.queues)), token_bytes(request.limit)
    arguments = (
        request.now,
        names,
        None if request.types is None else pack_texts(sorted(set(request.types))),
        request.limit,
        request.lease_for,
        request.worker,
        random_bytes,
        request.max_bytes,
        request.isolation.value,
        request.prefetch,
        True,
    )

    def call(connection: Connection) -> list[Row]:
        with lost_answers.watch(names, request.worker, random_bytes):
            return database.call_once(connection, "reserve", *arguments)

    reservations: list[Reservation] = []
    ended: list[int] = []
    for _ in range(UNREADABLE_ROUNDS):
        rows = database.run(call, is_repeatable=False)
        if rows and rows[0][0] is None:  # no job, see reserve
            ended.append(rows.pop(0)[1])
        reservations, buried = read_reservations(database, rows, request.now)
        ended += buried
        if reservations or not rows:
            break
    return reservations, ended


def read_reservations(
    database: Database, rows: Sequence[Row], caller_now: int | None
) -> tuple[list[Reservation], list[int]]:
    """Return the leased jobs in rows of ``reserve``, and make those that cannot be read dead letters (L9).

    The second list has the transaction of the dead letters. If the store fails meanwhile, their leases expire, and a
    later reserve tries again.
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
            bury = partial(_bury, database, unreadable=unreadable, caller_now=caller_now)
            return reservations, [database.run(bury, is_repeatable=False)]
    return reservations, []


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


def reap(database: Database, request: Reap) -> tuple[int, list[int]]:
    """End expired leases, or those of a dead worker; return how many, and the transaction that ended them."""
    queues = None if request.queues is None else pack_texts(distinct(request.queues))
    [(count, xid)] = database.call("reap", queues, request.worker, request.limit, request.now, with_xid=True)
    return int(count), [xid] if count else []
