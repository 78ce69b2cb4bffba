"""Arrow fields and Spark DDL for the columns of jobs and ledger rows, derived from ``holdfast.model.columns``.

A new column of ``JobRecord`` or ``LedgerRow`` appears in every table that takes all columns without a change here.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from holdfast.model.columns import JOB_COLUMNS, LEDGER_COLUMNS, Column, Kind

INSTANT = pa.timestamp("us", tz="UTC")
DURATION = pa.duration("us")

_ARROW_TYPES = {
    Kind.TEXT: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.INTEGER: pa.int32(),
    Kind.INSTANT: INSTANT,
    Kind.DURATION: DURATION,
    Kind.JSON: pa.string(),
}
_WIDE_INTEGERS = frozenset(
    {"offset", "fence", "unique_for"}
)  # 64 bits; all other integers count something and fit 32 bits
_SPARK_TYPES = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.list_(pa.string()): "array<string>",
    INSTANT: "timestamp",
    DURATION: "interval day to second",
}


def job_fields(*names: str) -> list[pa.Field]:
    """Return the Arrow fields of these columns of a job, in this order; of all columns without names."""
    return _fields(JOB_COLUMNS, names)


def ledger_fields(*names: str, nullable: bool = True) -> list[pa.Field]:
    """Return the Arrow fields of these columns of a ledger row, in this order; of all columns without names."""
    return _fields(LEDGER_COLUMNS, names, nullable=nullable)


def ddl(schema: pa.Schema) -> str:
    """Return the schema in Spark's DDL. Names are quoted: ``offset`` is a reserved word in ANSI mode."""
    return ", ".join(
        f"`{field.name}` {_SPARK_TYPES[field.type]}{'' if field.nullable else ' not null'}" for field in schema
    )


def _fields(columns: Sequence[Column], names: Sequence[str], *, nullable: bool = True) -> list[pa.Field]:
    by_name = {column.name: column for column in columns}
    return [pa.field(name, _arrow_type(by_name[name]), nullable) for name in names or by_name]


def _arrow_type(column: Column) -> pa.DataType:
    return pa.int64() if column.name in _WIDE_INTEGERS else _ARROW_TYPES[column.kind]
