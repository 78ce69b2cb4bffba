"""Columns of Arrow as values that JSON holds, a batch at a time.

Whatever a batch holds that JSON cannot is refused for the whole batch, with a ``PayloadError``: a caller who wants to
know which row it was asks again row by row. So good rows, almost all, cost no check of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import PayloadError
from holdfast.wire.codec import JSON

_encode = msgspec.json.Encoder().encode


def values(column: pa.Array, field: str) -> list[Any]:
    """The values of a column: instants as text in UTC, maps as objects, everything else as msgspec writes it."""
    if _holds(column.type, pa.types.is_floating):
        _finite(column, field)
    if _holds(column.type, pa.types.is_timestamp):
        column = _spelled(column)
    try:
        found: list[Any] = (
            column.to_pylist(maps_as_pydicts="strict") if pa.types.is_nested(column.type) else column.to_pylist()
        )
    except UnicodeDecodeError as error:
        raise PayloadError(field, wanted="text in UTF-8", got=str(error)) from error
    except KeyError as error:
        raise PayloadError(field, wanted="a map with each key once", got=str(error)) from error
    return found


def row_of(names: Sequence[str]) -> Any:
    """A class whose instances are written as JSON objects with these names: in half the time that dicts take."""
    fields = [f"f{place}" for place in range(len(names))]
    return msgspec.defstruct("Row", fields, rename=dict(zip(fields, names, strict=True)))


def objects(row: Any, columns: Sequence[Sequence[Any]]) -> list[bytes]:
    """Each row as a JSON object; ``row`` is what ``row_of`` made."""
    return [_encode(row(*found)) for found in zip(*columns, strict=True)]


def documents(column: pa.Array, field: str) -> list[bytes]:
    """The rows of one column: text and bytes are JSON already and only read through, null is null."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.binary())
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        texts = [b"null" if text is None else text.strip() for text in column.to_pylist()]
        for text in texts:
            JSON.decode(text, field=field)
        return texts
    return [_encode(value) for value in values(column, field)]


def micros(column: pa.Array) -> list[int | None]:
    """Instants as microseconds since the epoch, or lengths as microseconds (numbers are seconds)."""
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        found: list[int | None] = column.cast(pa.int64()).to_pylist()
        return found
    return [None if value is None else round(value * 1_000_000) for value in values(column, "a length in seconds")]


# What a type holds ----------------------------------------------------------------------------------------------


def _holds(kind: pa.DataType, is_one: Any) -> bool:
    if is_one(kind):
        return True
    return any(_holds(kind.field(place).type, is_one) for place in range(kind.num_fields))


def _finite(column: pa.Array, field: str) -> None:
    """JSON has no NaN and no infinity, and msgspec would write null."""
    kind = column.type
    if pa.types.is_floating(kind):
        if not pc.all(pc.is_finite(column), min_count=0).as_py():
            raise PayloadError(field, wanted="a finite number", got="NaN or infinity")
    elif pa.types.is_struct(kind):
        for place, child in enumerate(column.flatten()):
            _finite(child, f"{field}.{kind.field(place).name}")
    elif pa.types.is_nested(kind):
        _finite(_as_list(column).flatten(), field)


def _spelled(column: pa.Array) -> pa.Array:
    """Instants as texts: Python's datetimes of a time zone take a hundred times as long to make."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        utc = column if kind.tz is None else column.cast(pa.timestamp("us", tz="UTC"))
        return pc.replace_substring(utc.cast(pa.string()), " ", "T", max_replacements=1)
    if pa.types.is_struct(kind):
        children = [_spelled(child) for child in column.flatten()]
        names = [kind.field(place).name for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, names=names, mask=column.is_null())
    if pa.types.is_nested(kind):
        listed = _as_list(column)
        offsets, inner = _offsets(listed), _spelled(listed.flatten())
        if pa.types.is_map(kind):
            return pa.MapArray.from_arrays(offsets, *inner.flatten())
        return pa.ListArray.from_arrays(offsets, inner)
    return column


def _as_list(column: pa.Array) -> pa.Array:
    if not pa.types.is_map(column.type):
        return column
    entry = pa.struct([pa.field("key", column.type.key_type), pa.field("value", column.type.item_type)])
    return column.cast(pa.list_(entry))


def _offsets(listed: pa.Array) -> pa.Array:
    """Where each list begins in the flattened values; null where it is null."""
    lengths = pc.list_value_length(listed).to_pylist()
    offsets: list[int | None] = []
    total = 0
    for length in lengths:
        offsets.append(None if length is None else total)
        total += length or 0
    return pa.array([*offsets, total], pa.int32())
