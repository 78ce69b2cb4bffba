"""The statements of this driver. Those that write run inside ``BEGIN IMMEDIATE``: SQLite has one writer at a time."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.drivers.sqlite.rows import DUE_COLUMNS, INSERT_COLUMNS, STORED_SETTINGS
from holdfast.drivers.statements import (
    COLUMN_LISTS,
    NEWEST,
    NEWEST_FIRST,
    NULL,
    OLDEST_FIRST,
    Expression,
    load_statements,
)
from holdfast.model import bounds
from holdfast.model.columns import JOB_COLUMNS, names_of
from holdfast.model.transition import HeldJob, Transition

_PARAMETER = Expression("?")
# A job that has ended has no lease, its releases no longer count, and it is no suspect.
_AFTER_END = {
    **dict.fromkeys(("token", "expires_at", "reserved_at", "started_at"), NULL),
    **dict.fromkeys(("released_for", "prefetched", "suspect"), Expression("0")),
}
# The attempt is counted when the lease is granted. The counter saturates: a row that was changed by hand may have any.
_DUE = [
    Expression(f"attempts + (attempts < {bounds.MAX_COUNT})") if name == "attempts" else name for name in DUE_COLUMNS
]


def _payload(inline: str, large: str) -> Expression:
    """Return an expression of the payload of a job, which is in its row or in a row of ``holdfast_payloads``."""
    row = "FROM holdfast_payloads AS large WHERE large.seq = payload_seq"  # only tables of jobs have a payload_seq
    return Expression(f"CASE WHEN payload_seq IS NULL THEN {inline} ELSE (SELECT {large} {row}) END")


_PAYLOAD = _payload("payload", "large.payload")
_PAYLOAD_BYTES = Expression(f"coalesce({_payload('length(payload)', 'length(large.payload)')}, 0)")
# NULL for a payload that somebody has removed: such a row cannot be read.
_WITHOUT_PAYLOAD = {"payload": _payload("x''", "x''"), "result": NULL}
_IF_ASKED = {
    "payload": Expression(f"CASE WHEN :payloads THEN {_PAYLOAD} ELSE x'' END"),
    "result": Expression("CASE WHEN :payloads THEN result END"),
}


def _parameters(columns: Sequence[str]) -> list[str]:
    return [_PARAMETER] * len(columns)


def _with_payload(columns: Sequence[str], payload: Expression = _PAYLOAD) -> list[str]:
    return [payload if name == "payload" else name for name in columns]


_LISTS = {
    **COLUMN_LISTS,
    "payload": [_PAYLOAD],
    "job_columns": _with_payload(COLUMN_LISTS["job_columns"]),
    "live_job_columns": _with_payload(COLUMN_LISTS["live_job_columns"]),
    "fixed_columns": [*COLUMN_LISTS["fixed_columns"], "payload_seq"],
    "due_columns": _with_payload(_DUE),
    "inspected_columns": [_IF_ASKED.get(name, name) for name in COLUMN_LISTS["job_columns"]],
    "live_inspected_columns": [_IF_ASKED.get(name, name) for name in COLUMN_LISTS["live_job_columns"]],
    "payloadless_columns": [_WITHOUT_PAYLOAD.get(name, name) for name in names_of(JOB_COLUMNS)],
    "due_size_columns": _with_payload(_DUE, _PAYLOAD_BYTES),
    "insert_columns": INSERT_COLUMNS,
    "insert_values": _parameters(INSERT_COLUMNS),
    "held_columns": HeldJob._fields,
    "ended_held_columns": [_AFTER_END.get(name, name) for name in HeldJob._fields],
    "transition_columns": Transition._fields,
    "transition_values": _parameters(Transition._fields),
    "settings_columns": STORED_SETTINGS,
    "settings_values": _parameters(STORED_SETTINGS),
}
_STATEMENTS = load_statements(__package__, lists={**_LISTS, **OLDEST_FIRST})
_STATEMENTS.update(
    (name + NEWEST, text)
    for name, text in load_statements(__package__, lists={**_LISTS, **NEWEST_FIRST}).items()
    if name.startswith("find/")
)


def sql(name: str) -> str:
    """Return a statement of ``queries/``; those of ``find`` also exist with ``NEWEST`` after their name."""
    return _STATEMENTS[name]
