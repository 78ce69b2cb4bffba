"""The columns of a job and of a ledger row, in one place.

``JobRecord`` and ``LedgerRow`` declare the fields. This module reads their annotations. Packers, SQL column lists and
Arrow schemas are derived from the result, so that a new field is added once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from holdfast.model.job import JobRecord
from holdfast.model.ledger import LedgerRow


class Kind(StrEnum):
    """The kind of the values of a column."""

    TEXT = "text"
    BYTES = "bytes"
    INTEGER = "integer"
    INSTANT = "instant"  # integer microseconds since the epoch
    DURATION = "duration"  # integer microseconds
    JSON = "json"  # a mapping of JSON values


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One field of a record: its name, its kind, and whether it may be None."""

    name: str
    kind: Kind
    nullable: bool


_KINDS = {
    "str": Kind.TEXT,
    "State": Kind.TEXT,
    "Ending": Kind.TEXT,
    "bytes": Kind.BYTES,
    "int": Kind.INTEGER,
    "Count": Kind.INTEGER,
    "Instant": Kind.INSTANT,
    "Mapping[str, object]": Kind.JSON,
}
_DURATIONS = frozenset({"timeout"})


def _columns_of(record: type[msgspec.Struct]) -> tuple[Column, ...]:
    return tuple(_column(name, record.__annotations__[name]) for name in record.__struct_fields__)


def _column(name: str, annotation: str) -> Column:
    kind = _KINDS[annotation.removesuffix(" | None")]
    if name in _DURATIONS:
        kind = Kind.DURATION
    elif kind is Kind.INTEGER and name.endswith("_at"):
        kind = Kind.INSTANT
    return Column(name=name, kind=kind, nullable=annotation.endswith(" | None"))


def names_of(columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the names of the columns, in their order."""
    return tuple(column.name for column in columns)


JOB_COLUMNS = _columns_of(JobRecord)
LEDGER_COLUMNS = _columns_of(LedgerRow)

# A job's row changes only in these; the other columns keep what enqueue stored.
_CHANGING = frozenset(
    {"state", "run_at", "attempts", "crashes", "last_error", "failed_at", "dead_reason", "dead_at", "result"}
)
FIXED_JOB_COLUMNS = tuple(column for column in JOB_COLUMNS if column.name not in _CHANGING)
