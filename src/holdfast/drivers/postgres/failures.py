"""What PostgreSQL and psycopg raise, in the words of ``holdfast.errors``: translated once, at this driver's edge."""

from __future__ import annotations

import psycopg

from holdfast.errors import SchemaMismatch, StoreBusy, StoreError, StoreUnavailable

# Nothing was changed, and the same call may go well the next time: others were in the way.
CROSSED = frozenset({"40P01", "40001"})  # a deadlock, a serialisation failure
STALE_PLAN = "0A000"  # "cached plan must not change result type", once after an upgrade of the tables
BUSY = frozenset({"55P03", "57014"})  # a lock or the statement took longer than it may
MISSING = frozenset({"42P01", "42883", "3F000", "42703"})  # a table, function, schema or column
# The server goes away, is not there yet, or is not the one that writes: another connection may find it well.
GONE = frozenset({"57P01", "57P02", "57P03", "57P05", "25006", "53300"})


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is of no use any more; the call may or may not have been carried out."""
    state = error.sqlstate
    return state in GONE or (state or "").startswith("08") or (state is None and isinstance(error, _WITHOUT_STATE))


_WITHOUT_STATE = (psycopg.OperationalError, psycopg.InterfaceError)


def translated(error: psycopg.Error, waited: float = 0.0) -> StoreError:
    """Our error for theirs. Their messages name hosts and users, never passwords."""
    state = error.sqlstate
    said = " ".join(str(error).split()) or type(error).__name__
    if state in CROSSED or state in BUSY:
        return StoreBusy(waited)
    if state in MISSING:
        return SchemaMismatch(f"wanted the tables of this version of Holdfast, got: {said}")
    if is_lost(error):
        return StoreUnavailable(f"the PostgreSQL server cannot be reached: {said}")
    return StoreUnavailable(f"PostgreSQL refused: {said}")
