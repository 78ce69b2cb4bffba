"""The spaces of a file: listing them, and removing one.

The tables are read from the file itself, so that a new table is never forgotten. Each has an index that begins with the
space. The counter and the ledger's last number of a removed space stay in the row of the space "", which no space can
have as its name: a space that is created again continues with them.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.drivers.answers import Page, SpaceRemoval
from holdfast.drivers.packing import to_json
from holdfast.drivers.requests import REAP_LIMIT
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.errors import SpaceInUse

MAX_LOOKED_AT = 1000  # spaces with leases, in one call that looks for expired ones
HOT_TABLE = "holdfast_jobs"  # emptied first: what is not there cannot be leased


class Table(NamedTuple):
    """A table that has a column ``space``, and the columns of its primary key."""

    name: str
    key: str


def list_spaces(tx: Transaction, *, after: str, limit: int) -> Page[str]:
    """Return a page of the names of the spaces that have rows, in order: one probe per table and space."""
    tables = _tables(tx)
    first = " UNION ALL ".join(f"SELECT min(space) AS space FROM {table.name} WHERE space > :after" for table in tables)  # noqa: S608 - names of tables
    names: list[str] = []
    while len(names) <= limit:
        [name] = tx.execute(f"SELECT min(space) FROM ({first})", {"after": after}).fetchone()  # noqa: S608
        if name is None:
            return Page(names, None)
        names.append(name)
        after = name
    return Page(names[:limit], names[limit - 1])


def list_expired(tx: Transaction, *, after: str, limit: int) -> Page[str]:
    """Return a page of the names of the spaces that have expired leases: one probe per queue with leases."""
    names: list[str] = []
    for _ in range(MAX_LOOKED_AT):
        [name] = tx.run("space/next_leased", {"after": after}).fetchone()
        if name is None:
            return Page(names, None)
        if len(names) == limit:
            return Page(names, names[-1])
        queues = [queue for (queue,) in tx.run("reap/find_queues", {"space": name})]
        parameters = {"space": name, "queues": to_json(queues), "now": tx.now}
        if tx.run("space/is_expired", parameters).fetchone()[0]:
            names.append(name)
        after = name
    return Page(names, after)


def remove(tx: Transaction, *, limit: int, force: bool) -> SpaceRemoval:
    """Remove up to ``limit`` rows of the space of this transaction."""
    [leases] = tx.run("space/count_leases", {"space": tx.space, "limit": REAP_LIMIT}).fetchone()
    if leases and not force:
        raise SpaceInUse(tx.space, leases=leases)
    tx.run("space/keep_numbers", {"counter": tx.counter, "ledger": tx.ledger_end()})
    removed = 0
    for table in sorted(_tables(tx), key=lambda table: table.name != HOT_TABLE):
        if removed == limit:
            return SpaceRemoval(rows=removed, more=True)
        rows = f"SELECT {table.key} FROM {table.name} WHERE space = :space LIMIT :limit"  # noqa: S608 - names of tables
        statement = f"DELETE FROM {table.name} WHERE ({table.key}) IN ({rows})"  # noqa: S608
        removed += tx.execute(statement, {"space": tx.space, "limit": limit - removed}).rowcount
    return SpaceRemoval(rows=removed, more=removed == limit)


def _tables(tx: Transaction) -> list[Table]:
    return [Table(name, key) for name, key in tx.run("space/tables")]
