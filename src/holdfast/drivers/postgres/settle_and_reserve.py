"""Settle jobs and lease the next jobs of their domains: one call of a function."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.drivers.packing import Row
from holdfast.drivers.postgres.arrays import pack_texts
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.lost_answers import LostAnswers
from holdfast.drivers.postgres.reserve import read_reservations
from holdfast.drivers.postgres.rows import make_all_searchable
from holdfast.drivers.postgres.settle import find_writes, pack_settlements, read_answers
from holdfast.drivers.remembered_calls import RememberedCalls
from holdfast.errors import LeaseError
from holdfast.model.isolation import Isolation
from holdfast.model.lease import Reservation, token_bytes
from holdfast.model.settlement import Settlement

REFUSAL_COLUMNS = 7  # of settle_and_reserve, in front of the columns of reserve


def settle_and_reserve(
    database: Database,
    lost_answers: LostAnswers,
    expired: RememberedCalls[int],
    settlements: Sequence[Settlement],
    caller_now: int | None,
    *,
    follow: Collection[str],
    queues: Sequence[str],
    lease_for: int,
    worker: str,
    types: Collection[str] | None,
    max_bytes: int | None,
    isolation: Isolation,
) -> tuple[list[LeaseError | None], list[Reservation]]:
    """See ``SettleAndReserve``. Not repeated when the answer is lost: the next ``reserve`` releases what it has leased.

    The caller can repeat its settlements (L6).
    """
    lost_answers.release(database, caller_now)
    names, random_bytes = pack_texts(queues), token_bytes(len(settlements))
    arguments = (
        caller_now,
        *pack_settlements(settlements, find_writes(settlements)),
        pack_texts(make_all_searchable(list(follow))),
        names,
        None if types is None else pack_texts(sorted(set(types))),
        lease_for,
        worker,
        random_bytes,
        max_bytes,
        isolation.value,
    )

    def call(connection: Connection) -> list[Row]:
        with lost_answers.watch(names, worker, random_bytes):
            return database.call_once(connection, "settle_and_reserve", *arguments)

    rows = database.run(call, is_repeatable=False)
    refused = [row[:REFUSAL_COLUMNS] for row in rows if row[0] is not None]
    leased = [row[REFUSAL_COLUMNS:] for row in rows if row[0] is None]
    return read_answers(settlements, refused), read_reservations(database, expired, leased, caller_now)
