"""Which Spark types the columns of a sink may have, for which purpose: checked before any Spark task runs."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import types as t

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.spark.datasource.options import FAIL, Sink

REASON, RUN = "holdfast_reason", "holdfast_run"  # what a table of bad rows has beside the columns of the rows

_PLAIN = (
    *(t.BooleanType, t.NumericType, t.StringType, t.BinaryType, t.DateType, t.TimestampType, t.TimestampNTZType),
    *(t.DayTimeIntervalType, t.NullType),
)


def check(schema: t.StructType, asked: Sink) -> None:
    """Refuse a frame whose columns cannot become what the options say. Raises ``InvalidInput``."""
    names = schema.fieldNames()
    _check_names(names, asked)
    for name in asked.payload or names:
        if not _is_json(schema[name].dataType, 1):
            _refuse("payload", schema[name], "a type that JSON can hold (to_json() writes others, maps have text keys)")
    for name in asked.key:
        if not isinstance(schema[name].dataType, t.StringType | t.IntegralType | t.DateType | t.TimestampType):
            _refuse("key", schema[name], "text, a whole number, a date or a timestamp")
    for option, column in (("type_column", asked.type_column), ("queue_column", asked.queue_column)):
        if column is not None and not isinstance(schema[column].dataType, t.StringType):
            _refuse(option, schema[column], "text")
    for option, name in asked.columns.items():
        wanted, fits = _FIELDS[option]
        if not fits(schema[name].dataType):
            _refuse(option, schema[name], wanted)


def _check_names(names: list[str], asked: Sink) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput("columns", wanted="each name once", got=", ".join(twice))
    taken = {REASON, RUN} & set(names)
    if asked.bad_rows != FAIL and taken:
        raise InvalidInput("columns", wanted="names that a table of bad rows leaves free", got=", ".join(sorted(taken)))


def _refuse(option: str, column: t.StructField, wanted: str) -> None:
    got = f"{column.name} {column.dataType.simpleString()}"
    raise InvalidInput(f"option {option}", wanted=f"a column with {wanted}", got=got)


def _is_json(kind: t.DataType, depth: int) -> bool:
    if depth > bounds.MAX_DEPTH:
        return False
    match kind:
        case t.ArrayType():
            return _is_json(kind.elementType, depth + 1)
        case t.MapType():
            return isinstance(kind.keyType, t.StringType) and _is_json(kind.valueType, depth + 1)
        case t.StructType():
            names = kind.fieldNames()
            return len(set(names)) == len(names) and all(_is_json(field.dataType, depth + 1) for field in kind)
        case _:
            return isinstance(kind, _PLAIN)


def _is(*kinds: type[t.DataType]) -> Callable[[t.DataType], bool]:
    return lambda kind: isinstance(kind, kinds)


_TEXT = ("text", _is(t.StringType))
_WHOLE = ("a whole number", _is(t.IntegralType))
_SECONDS = ("seconds or an interval", _is(t.NumericType, t.DayTimeIntervalType))
_FIELDS: dict[str, tuple[str, Callable[[t.DataType], bool]]] = {
    "priority": _WHOLE,
    "max_attempts": _WHOLE,
    "offset": _WHOLE,
    "domain": _TEXT,
    "name": _TEXT,
    "webhook": _TEXT,
    "delay": _SECONDS,
    "timeout": _SECONDS,
    "run_at": ("a timestamp", _is(t.TimestampType)),
    "meta": (
        "an object: a struct, a map or its JSON",
        lambda kind: isinstance(kind, t.StringType | t.StructType | t.MapType) and _is_json(kind, 1),
    ),
}
