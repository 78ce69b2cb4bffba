"""The PostgreSQL types of the columns in ``model.columns``, and the lists of columns that SQL files name in braces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.drivers.packing import GAP_COLUMNS, MAX_INLINE_BYTES, SETTINGS_COLUMNS
from holdfast.drivers.statements import COLUMN_LISTS, ENDED_ONLY, NULL, Expression
from holdfast.model.columns import JOB_COLUMNS, LEDGER_COLUMNS, Column, Kind, names_of

_TYPES = {
    Kind.TEXT: "text",
    Kind.BYTES: "bytea",
    Kind.JSON: "bytea",
    Kind.INTEGER: "integer",
    Kind.INSTANT: "bigint",
    Kind.DURATION: "bigint",
}
_BIGINTS = frozenset({"offset", "fence", "unique_for"})  # integers that may exceed 32 bits

STORED_COLUMNS = tuple(column for column in JOB_COLUMNS if column.name != "state" and column.name not in ENDED_ONLY)
"""The fields of a job that enqueue stores and reserve returns; the others follow from the job being ready or leased."""

STORED_SETTINGS = (*SETTINGS_COLUMNS, *GAP_COLUMNS)

_PAYLOAD = Expression("coalesce(payload, holdfast.load_payload(payload_seq))")
# NULL for a payload that somebody has removed: such a row cannot be read.
_WITHOUT_PAYLOAD = {"payload": Expression(f"CASE WHEN {_PAYLOAD} IS NOT NULL THEN ''::bytea END"), "result": NULL}
_IF_ASKED = {
    "payload": Expression(f"CASE WHEN %(payloads)s THEN {_PAYLOAD} ELSE '' END"),
    "result": Expression("CASE WHEN %(payloads)s THEN result END"),
}


def sql_type(column: Column) -> str:
    """Return the type of a column in the tables."""
    return "bigint" if column.name in _BIGINTS else _TYPES[column.kind]


def _with_payload(columns: Sequence[str], payload: str) -> tuple[str, ...]:
    return tuple(Expression(payload) if name == "payload" else name for name in columns)


def _declare(columns: Sequence[Column]) -> tuple[Expression, ...]:
    return tuple(Expression(f'"{column.name}" {sql_type(column)}') for column in columns)


LISTS: Mapping[str, Sequence[str]] = {
    **COLUMN_LISTS,
    "job_columns": _with_payload(COLUMN_LISTS["job_columns"], _PAYLOAD),
    "live_job_columns": _with_payload(COLUMN_LISTS["live_job_columns"], _PAYLOAD),
    "fixed_columns": (*COLUMN_LISTS["fixed_columns"], "payload_seq"),
    "inspected_columns": [_IF_ASKED.get(name, name) for name in COLUMN_LISTS["job_columns"]],
    "live_inspected_columns": [_IF_ASKED.get(name, name) for name in COLUMN_LISTS["live_job_columns"]],
    "payloadless_columns": [_WITHOUT_PAYLOAD.get(name, name) for name in names_of(JOB_COLUMNS)],
    "settings_columns": STORED_SETTINGS,
    "settings_values": tuple(Expression(f"%({name})s") for name in STORED_SETTINGS),
    "stored_columns": names_of(STORED_COLUMNS),
    "max_inline_bytes": (Expression(MAX_INLINE_BYTES),),
    "inserted_columns": _with_payload(
        names_of(STORED_COLUMNS), f"CASE WHEN octet_length(a.payload) <= {MAX_INLINE_BYTES} THEN a.payload END"
    ),
    "inserted_arguments": tuple(
        Expression("CASE WHEN _payload_seq IS NULL THEN _payload END" if name == "payload" else f"_{name}")
        for name in names_of(STORED_COLUMNS)
    ),
    "leased_columns": _with_payload(names_of(STORED_COLUMNS), "coalesce(j.payload, load_payload(j.payload_seq))"),
    "stored_arguments": tuple(Expression(f"_{column.name}") for column in STORED_COLUMNS),
    "stored_scalars": tuple(Expression(f"_{column.name} {sql_type(column)}") for column in STORED_COLUMNS),
    "stored_singletons": tuple(Expression(f"ARRAY[_{column.name}]") for column in STORED_COLUMNS),
    "stored_parameters": tuple(Expression(f"_{column.name} {sql_type(column)}[]") for column in STORED_COLUMNS),
    "declared_stored_columns": _declare(STORED_COLUMNS),
    "declared_ledger_columns": _declare(LEDGER_COLUMNS),
}
"""The lists of ``drivers.statements``, and those of this driver. A ``declared`` column is followed by its type."""
