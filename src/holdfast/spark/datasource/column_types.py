"""Which Spark types the columns of a sink may have. Checked on the Spark driver, once, before any Spark task runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import types as t

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.spark.datasource.options import FAIL, SinkOptions

REASON, RUN = "holdfast_reason", "holdfast_run"  # additional columns of a table of bad rows

_JSON_SCALARS = (
    *(t.BooleanType, t.NumericType, t.StringType, t.BinaryType, t.DateType, t.TimestampType, t.TimestampNTZType),
    *(t.DayTimeIntervalType, t.NullType),
)
_KEY_TYPES = (
    *(t.StringType, t.IntegralType, t.DecimalType, t.BooleanType),
    *(t.DateType, t.TimestampType, t.TimestampNTZType),
)
_ORDER_TYPES = (*_KEY_TYPES, t.NumericType)


def check_columns(schema: t.StructType, options: SinkOptions) -> None:
    """Raise ``InvalidInput`` for a column whose type does not fit the option that names it."""
    names = schema.fieldNames()
    _check_names(names, options)
    for name in options.payload or names:
        if not _is_json(schema[name].dataType, 1):
            _refuse(
                "option payload",
                schema[name],
                "a type that JSON can hold (to_json() writes others, maps have text keys)",
            )
    check_key_types("option key", schema, options.key)
    for option, column in (("type_column", options.type_column), ("queue_column", options.queue_column)):
        if column is not None and not isinstance(schema[column].dataType, t.StringType):
            _refuse(f"option {option}", schema[column], "text")
    for option, name in options.columns.items():
        wanted, fits = _FIELD_TYPES[option]
        if not fits(schema[name].dataType):
            _refuse(f"option {option}", schema[name], wanted)


def check_key_types(field: str, schema: t.StructType, names: Sequence[str]) -> None:
    """Raise ``InvalidInput`` for a key column of a type whose values have no exact text. ``run`` uses the same rule."""
    for name in names:
        if not isinstance(schema[name].dataType, _KEY_TYPES):
            _refuse(field, schema[name], "text, a whole number, a decimal, a boolean, a date or a timestamp")


def check_order_types(field: str, schema: t.StructType, names: Sequence[str]) -> None:
    """Raise ``InvalidInput`` for a column of a type by which ``run`` does not order rows."""
    for name in names:
        if not isinstance(schema[name].dataType, _ORDER_TYPES):
            _refuse(field, schema[name], "text, a number, a boolean, a date or a timestamp")


def check_unique_names(names: Sequence[str]) -> None:
    """Raise ``InvalidInput`` for a frame without columns, or with two columns of one name: a row is a JSON object."""
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates or not names:
        raise InvalidInput("columns", wanted="at least one, and each name once", got=", ".join(duplicates) or "none")


def _check_names(names: list[str], options: SinkOptions) -> None:
    check_unique_names(names)
    reserved = {REASON, RUN} & set(names)
    if options.bad_rows != FAIL and reserved:
        raise InvalidInput(
            "columns", wanted="names that a table of bad rows does not use", got=", ".join(sorted(reserved))
        )


def _refuse(field: str, column: t.StructField, wanted: str) -> None:
    got = f"{column.name} {column.dataType.simpleString()}"
    raise InvalidInput(field, wanted=f"a column with {wanted}", got=got)


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
            return isinstance(kind, _JSON_SCALARS)


def _is_one_of(*kinds: type[t.DataType]) -> Callable[[t.DataType], bool]:
    return lambda kind: isinstance(kind, kinds)


_TEXT = ("text", _is_one_of(t.StringType))
_INTEGER = ("a whole number", _is_one_of(t.IntegralType))
_SECONDS = ("seconds or an interval", _is_one_of(t.NumericType, t.DayTimeIntervalType))
_FIELD_TYPES: dict[str, tuple[str, Callable[[t.DataType], bool]]] = {
    "priority": _INTEGER,
    "max_attempts": _INTEGER,
    "offset": _INTEGER,
    "domain": _TEXT,
    "limit_key": _TEXT,
    "name": _TEXT,
    "webhook": _TEXT,
    "delay": _SECONDS,
    "timeout": _SECONDS,
    "run_at": ("a timestamp", _is_one_of(t.TimestampType)),
    "meta": (
        "an object: a struct, a map or its JSON",
        lambda kind: isinstance(kind, t.StringType | t.StructType | t.MapType) and _is_json(kind, 1),
    ),
}
