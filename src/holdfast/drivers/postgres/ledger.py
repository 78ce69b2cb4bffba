"""Reading the ledger. A cursor is ``<xid>-<seq>``: the transaction and the number of the last row that was read.

Rows are ordered by their transactions. A row is returned only when every older transaction has ended (it is below the
*horizon*), so that no row can appear before a reader's position. The horizon is read first, the rows under a later
snapshot.
Scans read how far the ledger was trimmed once more afterwards, to know whether rows were removed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeVar

from holdfast.clock import monotonic
from holdfast.drivers.answers import LedgerDelay, Page
from holdfast.drivers.cursors import foreign_cursor
from holdfast.drivers.packing import Row, read_ledger_row
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.rows import POSITION_COLUMNS
from holdfast.errors import LedgerTrimmed
from holdfast.model.ledger import LedgerRow

MAX_BIGINT = 2**63 - 1

T = TypeVar("T")


class Position(NamedTuple):
    """A place in the ledger."""

    xid: int
    seq: int

    def __str__(self) -> str:
        return f"{self.xid}-{self.seq}"


class _Limits(NamedTuple):
    """A row of ``ledger/limits``."""

    horizon: int
    trimmed_xid: int
    trimmed_seq: int
    next_xid: int
    is_held_back: bool


def page(database: Database, after: str | None, limit: int) -> Page[LedgerRow]:
    """Return a page of the ledger, in an order that is fixed and has no gaps (L13)."""
    position = None if after is None else _parse(after)

    def read() -> tuple[Page[LedgerRow], bool]:
        rows = database.call("read_ledger", *(position or (None, None)), limit)
        xid, _, trimmed_xid, trimmed_seq, next_xid, is_held_back = rows[-1][-POSITION_COLUMNS:]
        start = _check_position(position, after, Position(trimmed_xid, trimmed_seq), next_xid)
        if xid is None:  # no row of the ledger, only the facts about the position
            return Page([], str(start)), is_held_back
        cursors = [f"{row[-POSITION_COLUMNS]}-{row[1 - POSITION_COLUMNS]}" for row in rows]
        return Page([read_ledger_row(row) for row in rows], cursors[-1], cursors), False

    return _wait_for_horizon(database, read)


def end(database: Database) -> str:
    """Return the cursor of the end: ``ledger`` after it has only rows that are written from now on."""

    def read() -> tuple[str, bool]:
        [(xid, seq, is_held_back)] = database.call("find_ledger_end")
        return f"{xid}-{seq}", is_held_back

    return _wait_for_horizon(database, read)


def tail(database: Database, before: str | None, limit: int) -> Page[LedgerRow]:
    """Return the last ``limit`` rows up to the cursor ``before``, in the order of the ledger; None is the end."""
    position = _parse(end(database) if before is None else before)
    [row] = database.query("ledger/limits", {})
    limits = _Limits(*row)
    if position.xid >= limits.next_xid:
        raise foreign_cursor(str(before))
    parameters = {"horizon": limits.horizon, "xid": position.xid, "seq": position.seq, "limit": limit}
    rows = database.query_page("ledger/tail", parameters)
    cursor = None
    if len(rows) == limit:
        *_, xid, seq = rows[-1]
        cursor = str(Position(xid, seq - 1))
    cursors = [f"{xid}-{seq}" for *_, xid, seq in reversed(rows)]
    return Page([read_ledger_row(row) for row in reversed(rows)], cursor, cursors)


def tuples(database: Database, after: str | None, limit: int) -> tuple[Sequence[Sequence[Any]], str]:
    """Return a page of tuples and its cursor."""

    def read() -> tuple[tuple[list[Row], str], bool]:
        limits, start = _read_limits(database, after)
        parameters = {"horizon": limits.horizon, "xid": start.xid, "seq": start.seq, "limit": limit}
        rows = database.query_page("ledger/rows", parameters)
        _read_limits(database, after)
        if not rows:
            return ([], str(start)), limits.is_held_back
        *_, xid, seq = rows[-1]
        return (rows, f"{int.from_bytes(xid)}-{seq}"), False  # xid8 stays in binary form: most are never read

    return _wait_for_horizon(database, read)


def marks(database: Database, after: str | None, *, every: int, most: int) -> list[tuple[str, int]]:
    """Return cursors that split the next ``most`` rows into ranges of ``every`` rows."""
    limits, start = _read_limits(database, after)
    parameters = {"horizon": limits.horizon, "xid": start.xid, "seq": start.seq, "every": every, "marks": most // every}
    full = [Position(*row) for row in database.query_page("ledger/marks", parameters)]
    found = [(str(position), every) for position in full]
    last = full[-1] if full else start
    left = min(every, most - every * len(full))
    rest = {"horizon": limits.horizon, "xid": last.xid, "seq": last.seq, "most": left}
    found += [(f"{xid}-{seq}", rows) for rows, xid, seq in database.query_page("ledger/rest", rest)]
    _read_limits(database, after)
    return found


def delay(database: Database) -> LedgerDelay | None:
    """Return the transaction that delays the readers of the ledger; None if there is none."""
    rows = database.query("ledger/delay", {})
    if not rows:
        return None
    [(age, pid, name, state)] = rows
    return LedgerDelay(age=max(0, age), pid=pid, name=name, state=state)


def read_position(cursors: Collection[str | None]) -> tuple[int, int] | tuple[None, None]:
    """Return the position up to which all readers at these cursors have read; two times None without readers."""
    positions = [Position(0, 0) if cursor is None else _parse(cursor) for cursor in cursors]
    return min(positions) if positions else (None, None)


def is_whole(database: Database) -> bool:
    """Whether ``trim`` never removed a row."""
    limits, _ = _read_limits(database, None)
    return (limits.trimmed_xid, limits.trimmed_seq) == (0, 0)


def _wait_for_horizon(database: Database, read: Callable[[], tuple[T, bool]]) -> T:
    """Return what ``read`` returns once older transactions hold nothing back, or when the timeout has passed.

    ``read`` returns its result and whether a running transaction still hides later rows.
    """
    deadline = monotonic() + database.timing.horizon_timeout_seconds
    while True:
        result, is_held_back = read()
        if not is_held_back or monotonic() > deadline:
            return result
        database.pool.pause(database.timing.horizon_poll_seconds)


def _read_limits(database: Database, after: str | None) -> tuple[_Limits, Position]:
    """Return the limits of the ledger, and the position after which to read."""
    [row] = database.query("ledger/limits", {})
    limits = _Limits(*row)
    position = None if after is None else _parse(after)
    trimmed = Position(limits.trimmed_xid, limits.trimmed_seq)
    return limits, _check_position(position, after, trimmed, limits.next_xid)


def _check_position(position: Position | None, cursor: str | None, trimmed: Position, next_xid: int) -> Position:
    """Return where to read from: the position, or the oldest row. Raises ``LedgerTrimmed`` or ``InvalidInput``."""
    if position is None:
        return trimmed
    if position < trimmed:
        raise LedgerTrimmed(str(cursor))
    if position.xid >= next_xid:
        raise foreign_cursor(str(cursor))
    return position


def _parse(cursor: str) -> Position:
    parts = cursor.split("-")
    if len(parts) == 2 and all(part.isascii() and part.isdecimal() and int(part) <= MAX_BIGINT for part in parts):
        return Position(int(parts[0]), int(parts[1]))
    raise foreign_cursor(cursor)
