"""Translation of the database driver's exceptions into ``holdfast.errors``, once, at the edge of this driver."""

from __future__ import annotations

import re

import psycopg

from holdfast.errors import SchemaMismatch, StoreBusy, StoreError, StoreUnavailable

# SQLSTATE codes. After these, nothing was changed, and the same call may succeed the next time.
CONFLICTS = frozenset({"40P01", "40001"})  # a deadlock, a serialisation failure
RESTORED = "HF002"  # raised by ledger_shift
STALE_PLAN = "0A000"  # "cached plan must not change result type", once after the tables were upgraded

_TIMEOUTS = frozenset({"55P03", "57014"})  # of a lock, of a statement
_MISSING = frozenset({"42P01", "42883", "3F000", "42703"})  # a table, function, schema or column
# The server stops, has not started yet, or is read-only: another connection may find a usable server.
_SERVER_GONE = frozenset({"57P01", "57P02", "57P03", "57P05", "25006", "53300"})
_MISSING_RIGHT = "42501"
# libpq has no SQLSTATE for a refused connection, only the server's text, which may be in another language.
_REFUSED = re.compile(
    r'FATAL: +((database|role) "(.*)" does not exist|password authentication failed .*|no pg_hba\.conf entry .*)'
)
_WITHOUT_STATE = (psycopg.OperationalError, psycopg.InterfaceError)


def is_connection_lost(error: Exception) -> bool:
    """Whether the connection can no longer be used. The server may or may not have carried out the call."""
    state = _state_of(error)
    if state is None:
        return isinstance(error, _WITHOUT_STATE) and not _REFUSED.search(str(error))
    return state in _SERVER_GONE or state.startswith("08")


def translate_error(error: Exception, waited: float = 0.0) -> StoreError:
    """Return the error of ``holdfast.errors``. PostgreSQL's messages name hosts and users, never passwords.

    ``error`` is of psycopg, or of asyncpg, which raises it on a connection of the caller.
    """
    state = _state_of(error)
    message = " ".join(str(error).split()) or type(error).__name__
    if state in CONFLICTS or state in _TIMEOUTS:
        return StoreBusy(waited)
    if state == RESTORED:
        return SchemaMismatch(f"{message}: connect once, as the role that owns the tables")
    if state in _MISSING:
        return SchemaMismatch(f"wanted the tables of this version of Holdfast, got: {message}")
    if state == _MISSING_RIGHT:
        return StoreUnavailable(
            f"PostgreSQL refused: {message}: as the role that owns the schema, run the statements of "
            "`holdfast schema grants --role NAME`"
        )
    if state is None and (refused := _REFUSED.search(str(error))):
        return StoreUnavailable(_explain_refusal(*refused.groups()))
    if is_connection_lost(error):
        return StoreUnavailable(f"the PostgreSQL server cannot be reached: {message}")
    return StoreUnavailable(f"PostgreSQL refused: {message}")


def _explain_refusal(text: str, kind: str | None, name: str) -> str:
    match kind:
        case "database":
            return f'the PostgreSQL server has no database "{name}": create the database, or correct the URL'
        case "role":
            return f'the PostgreSQL server has no role "{name}": create a role that may log in, or correct the URL'
        case _:
            return f"the PostgreSQL server refused the connection: {text}"


def _state_of(error: Exception) -> str | None:
    """Return the SQLSTATE; None if the server has not raised the error."""
    state: str | None = getattr(error, "sqlstate", None)
    return state
