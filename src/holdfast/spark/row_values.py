"""Values of Spark as JSON, and back: no value changes on its way to a handler, in any time zone.

| type of Spark | in the payload | in the handler of ``run`` |
|---|---|---|
| boolean, whole numbers, string, null | as they are | as they are |
| float, double | number; ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` as text | ``float`` |
| decimal | text with all digits | ``Decimal`` |
| date, timestamp_ntz | text, ISO 8601 | ``date``, ``datetime`` without a time zone |
| time | text, ISO 8601 | ``time`` |
| timestamp | text in UTC with six digits | ``datetime`` in UTC |
| day-time interval | text, ISO 8601 | ``timedelta`` |
| year-month and calendar interval | text, ISO 8601 | text |
| binary | text in base64 | ``bytes`` |
| array, struct | array, object | ``list``, ``dict`` |
| map | object, with keys of text; else an array of pairs | ``dict``; an array of pairs if a key cannot be hashed |
| variant | object of its two binary parts | ``VariantVal`` |

A date or a timestamp outside of the years 1 to 9999 is text in the handler: Python has no value for it. The sink writes
the same JSON, but refuses the types, and the numbers, that a reader without the schema would misread.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec
from pyspark.sql import types as t

from holdfast.model import bounds

Convert = Callable[[Any], Any]

_UNCHANGED = (t.BooleanType, t.IntegralType, t.StringType, t.NullType)
_OTHER_INTERVALS = ("YearMonthIntervalType", "CalendarIntervalType")  # text in the handler
_UNHASHABLE = ("ArrayType", "StructType", "MapType", "VariantType")


def is_exact(kind: t.DataType, depth: int = 1) -> bool:
    """Whether values of a type reach the handler of ``run`` unchanged. Others are refused before anything runs."""
    if depth > bounds.MAX_DEPTH:
        return False
    match kind:
        case t.ArrayType():
            return is_exact(kind.elementType, depth + 1)
        case t.MapType():
            return is_exact(kind.keyType, depth + 2) and is_exact(kind.valueType, depth + 2)
        case t.StructType():
            names = kind.fieldNames()
            return len(set(names)) == len(names) and all(is_exact(field.dataType, depth + 1) for field in kind)
        case _:
            return isinstance(kind, _UNCHANGED) or type(kind).__name__ in {*_SCALARS_FROM_JSON, *_OTHER_INTERVALS}


def contains(kind: t.DataType, *kinds: type[t.DataType]) -> bool:
    """Whether a type is, or contains, one of these types."""
    if isinstance(kind, kinds):
        return True
    match kind:
        case t.ArrayType():
            return contains(kind.elementType, *kinds)
        case t.MapType():
            return contains(kind.keyType, *kinds) or contains(kind.valueType, *kinds)
        case t.StructType():
            return any(contains(field.dataType, *kinds) for field in kind)
        case _:
            return False


# To JSON ----------------------------------------------------------------------------------------------------


def to_json(kind: t.DataType) -> Convert | None:
    """Return the function from a value that Arrow returns to its JSON value; None if msgspec writes it as it is.

    Arrow has written dates and timestamps as text before, and returns a map as a list of pairs. Spark has turned
    year-month intervals into months (see ``replace_months``).
    """
    match kind:
        case t.FloatType() | t.DoubleType():
            return _float_to_json
        case t.YearMonthIntervalType():
            return _months_to_json
        case t.CalendarIntervalType():
            return _calendar_interval_to_json
        case t.ArrayType():
            return _of_items(to_json(kind.elementType))
        case t.MapType():
            pairs = _of_pairs(to_json(kind.keyType), to_json(kind.valueType))
            return (lambda value: dict(pairs(value))) if isinstance(kind.keyType, t.StringType) else pairs
        case t.StructType():
            return _of_fields({field.name: to_json(field.dataType) for field in kind})
        case _:
            return None


def _float_to_json(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _calendar_interval_to_json(value: Any) -> str:
    seconds, nanos = divmod(abs(value.nanoseconds), 10**9)
    sign = "-" if value.nanoseconds < 0 else ""
    return f"P{value.months}M{value.days}DT{sign}{seconds}.{nanos // 1000:06d}S"


def _months_to_json(months: int) -> str:
    return f"P{months}M"


def replace_months(kind: t.DataType, other: t.DataType) -> t.DataType:
    """Return a type with ``other`` in place of year-month intervals, which Arrow does not have in Python."""
    match kind:
        case t.YearMonthIntervalType():
            return other
        case t.ArrayType():
            return t.ArrayType(replace_months(kind.elementType, other), kind.containsNull)
        case t.MapType():
            keys, values = replace_months(kind.keyType, other), replace_months(kind.valueType, other)
            return t.MapType(keys, values, kind.valueContainsNull)
        case t.StructType():
            fields = [(field.name, replace_months(field.dataType, other), field.nullable) for field in kind]
            return t.StructType([t.StructField(*field) for field in fields])
        case _:
            return kind


# From JSON --------------------------------------------------------------------------------------------------


def from_json(kind: t.DataType) -> Convert | None:
    """Return the function from a decoded JSON value to the value of the handler; None if both are the same."""
    match kind:
        case t.ArrayType():
            return _of_items(from_json(kind.elementType))
        case t.MapType():
            return _map_from_json(kind)
        case t.StructType():
            return _of_fields({field.name: from_json(field.dataType) for field in kind})
        case _:
            return _SCALARS_FROM_JSON.get(type(kind).__name__)


def make_row_reader(names: Sequence[str], kinds: Sequence[t.DataType]) -> Convert | None:
    """Return the function from the JSON object of a row to the row that a handler gets; None if both are the same."""
    schema = t.StructType([t.StructField(name, kind) for name, kind in zip(names, kinds, strict=True)])
    return None if from_json(schema) is None else RowReader(schema.json())


class RowReader:
    """Reads the rows of one schema. Pickled, with the handler."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        convert = from_json(t.StructType.fromJson(msgspec.json.decode(schema)))
        assert convert is not None
        self._convert = convert

    def __call__(self, row: object) -> object:
        """Return the row. Raises ``ValueError`` or ``TypeError`` for a payload that is not a row of the frame."""
        return self._convert(row)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowReader, (self._schema,)


def _or_text(parse: Convert) -> Convert:
    def convert(text: str) -> object:
        try:
            return parse(text)
        except ValueError:  # a year that Python does not have
            return text

    return convert


def _duration_from_json(text: str) -> timedelta:
    return msgspec.convert(text, timedelta)


def _variant_from_json(parts: dict[str, str]) -> object:
    return t.VariantVal(base64.b64decode(parts["value"]), base64.b64decode(parts["metadata"]))


_SCALARS_FROM_JSON: dict[str, Convert] = {  # by the name of the type: not every version of Spark has all of them
    "FloatType": float,
    "DoubleType": float,
    "DecimalType": Decimal,
    "BinaryType": base64.b64decode,
    "DateType": _or_text(date.fromisoformat),
    "TimeType": time.fromisoformat,
    "TimestampType": _or_text(datetime.fromisoformat),
    "TimestampNTZType": _or_text(datetime.fromisoformat),
    "DayTimeIntervalType": _duration_from_json,
    "VariantType": _variant_from_json,
}


def _map_from_json(kind: t.MapType) -> Convert | None:
    keys, values = from_json(kind.keyType), from_json(kind.valueType)
    if isinstance(kind.keyType, t.StringType):
        if values is None:
            return None
        convert = _null_safe(values)
        return lambda items: {key: convert(value) for key, value in items.items()}
    pairs = _of_pairs(keys, values)
    if type(kind.keyType).__name__ in _UNHASHABLE:
        return pairs
    return lambda items: dict(pairs(items))


# Nested types -----------------------------------------------------------------------------------------------


def _null_safe(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _of_items(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    each = _null_safe(convert)
    return lambda items: [each(item) for item in items]


def _of_pairs(key: Convert | None, value: Convert | None) -> Callable[[Any], list[tuple[Any, Any]]]:
    keys, values = _null_safe(key), _null_safe(value)
    return lambda pairs: [(keys(one), values(other)) for one, other in pairs]


def _of_fields(converts: dict[str, Convert | None]) -> Convert | None:
    changed = {name: convert for name, convert in converts.items() if convert is not None}
    if not changed:
        return None

    def convert(fields: dict[str, Any]) -> dict[str, Any]:
        values = dict(fields)
        for name, one in changed.items():
            if values[name] is not None:
                values[name] = one(values[name])
        return values

    return convert
