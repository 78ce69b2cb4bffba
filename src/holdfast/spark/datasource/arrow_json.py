"""Arrow columns as JSON values, one batch at a time. Runs on executors, in the sink and in the slots of ``run``.

A value that JSON cannot hold makes the whole batch raise ``PayloadError``. The sink then converts row by row to find
the bad rows. So good rows, which are almost all rows, are not checked one by one. ``row_values.py`` lists the JSON of
every type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType

from holdfast.errors import PayloadError
from holdfast.spark import row_values
from holdfast.wire.codec import JSON

_encode = msgspec.json.Encoder().encode


def json_values(column: pa.Array, field: str) -> list[Any]:
    """Return the values of a column: dates and instants as text, maps as dicts, all others as msgspec encodes them."""
    if _contains(column.type, pa.types.is_floating):
        _check_finite(column, field)
    try:
        return _values(column, field, maps_as_pydicts="strict" if pa.types.is_nested(column.type) else None)
    except KeyError as error:
        raise PayloadError(field, wanted="a map with each key once", got=str(error)) from error


def exact_json_values(column: pa.Array, kind: DataType, field: str) -> list[Any]:
    """Return the values of a column of any type of Spark. ``row_values.from_json`` returns the same values again."""
    convert = row_values.to_json(kind)
    if convert is None or (pa.types.is_floating(column.type) and _is_finite(column)):
        return _values(column, field)
    return [None if value is None else convert(value) for value in _values(column, field)]


def _values(column: pa.Array, field: str, **options: Any) -> list[Any]:
    if _contains(column.type, pa.types.is_timestamp) or _contains(column.type, pa.types.is_date):
        column = _instants_as_text(column)
    try:
        values: list[Any] = column.to_pylist(**options)
    except UnicodeDecodeError as error:
        raise PayloadError(field, wanted="text in UTF-8", got=str(error)) from error
    return values


def make_row_class(names: Sequence[str]) -> Any:
    """Return a class that encodes as a JSON object with these names, in half the time that a dict takes."""
    fields = [f"f{number}" for number in range(len(names))]
    return msgspec.defstruct("Row", fields, rename=dict(zip(fields, names, strict=True)))


def encode_rows(row_class: Any, columns: Sequence[Sequence[Any]]) -> list[bytes]:
    """Return each row as a JSON object. ``row_class`` comes from ``make_row_class``."""
    return [_encode(row_class(*values)) for values in zip(*columns, strict=True)]


def encode_column(column: pa.Array, field: str) -> list[bytes]:
    """Return each value of one column as JSON. Text and bytes are JSON already and are only validated."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.binary())
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        texts = [b"null" if text is None else text.strip() for text in column.to_pylist()]
        for text in texts:
            JSON.decode(text, field=field)
        return texts
    return [_encode(value) for value in json_values(column, field)]


def microseconds(column: pa.Array) -> list[int | None]:
    """Return instants as microseconds since the epoch, and durations as microseconds. Numbers are seconds."""
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        values: list[int | None] = column.cast(pa.int64()).to_pylist()
        return values
    seconds = json_values(column, "a length in seconds")
    return [None if value is None else round(value * 1_000_000) for value in seconds]


# Nested types -------------------------------------------------------------------------------------------------


def _contains(kind: pa.DataType, is_wanted: Callable[[pa.DataType], bool]) -> bool:
    if is_wanted(kind):
        return True
    return any(_contains(kind.field(number).type, is_wanted) for number in range(kind.num_fields))


def _check_finite(column: pa.Array, field: str) -> None:
    """Raise ``PayloadError`` for NaN and infinity: JSON has neither, and msgspec would write null."""
    kind = column.type
    if pa.types.is_floating(kind):
        if not _is_finite(column):
            raise PayloadError(field, wanted="a finite number", got="NaN or infinity")
    elif pa.types.is_struct(kind):
        for number, child in enumerate(column.flatten()):
            _check_finite(child, f"{field}.{kind.field(number).name}")
    elif pa.types.is_nested(kind):
        _check_finite(_as_list(column).flatten(), field)


def _is_finite(column: pa.Array) -> bool:
    return bool(pc.all(pc.is_finite(column), min_count=0).as_py())


def _instants_as_text(column: pa.Array) -> pa.Array:
    """Convert in Arrow: a Python datetime with a time zone takes a hundred times as long for each value.

    Arrow also has dates and instants that Python does not have: years before 1 and after 9999.
    """
    kind = column.type
    if pa.types.is_date(kind):
        return column.cast(pa.string())
    if pa.types.is_timestamp(kind):
        utc = column if kind.tz is None else column.cast(pa.timestamp("us", tz="UTC"))
        return pc.replace_substring(utc.cast(pa.string()), " ", "T", max_replacements=1)
    if pa.types.is_struct(kind):
        children = [_instants_as_text(child) for child in column.flatten()]
        names = [kind.field(number).name for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, names=names, mask=column.is_null())
    if pa.types.is_nested(kind):
        lists = _as_list(column)
        offsets, items = _list_offsets(lists), _instants_as_text(lists.flatten())
        if pa.types.is_map(kind):
            return pa.MapArray.from_arrays(offsets, *items.flatten())
        return pa.ListArray.from_arrays(offsets, items)
    return column


def _as_list(column: pa.Array) -> pa.Array:
    if not pa.types.is_map(column.type):
        return column
    entry = pa.struct([pa.field("key", column.type.key_type), pa.field("value", column.type.item_type)])
    return column.cast(pa.list_(entry))


def _list_offsets(lists: pa.Array) -> pa.Array:
    """Return where each list begins in the flattened items; null for a null list."""
    lengths = pc.list_value_length(lists).to_pylist()
    offsets: list[int | None] = []
    total = 0
    for length in lengths:
        offsets.append(None if length is None else total)
        total += length or 0
    return pa.array([*offsets, total], pa.int32())
