"""Columns of a batch as PostgreSQL arrays in binary form.

psycopg can send lists, but it inspects every element, and a batch of a thousand jobs has twenty columns. Here a column
is packed in one step, and a column that no job sets is sent as NULL.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format

_LENGTHS = [struct.pack(">i", length) for length in range(1024)]
_NULL = struct.pack(">i", -1)


class Array(bytes):
    """A packed column; its class is its type."""

    __slots__ = ()
    element_oid: ClassVar[int]
    oid: ClassVar[int]


A = TypeVar("A", bound=Array)


class Texts(Array):
    """``text[]``."""

    __slots__ = ()
    element_oid, oid = 25, 1009


class Blobs(Array):
    """``bytea[]``."""

    __slots__ = ()
    element_oid, oid = 17, 1001


class Bigints(Array):
    """``bigint[]``."""

    __slots__ = ()
    element_oid, oid = 20, 1016


class Integers(Array):
    """``integer[]``."""

    __slots__ = ()
    element_oid, oid = 23, 1007


class Booleans(Array):
    """``boolean[]``."""

    __slots__ = ()
    element_oid, oid = 16, 1000


def pack_blobs(values: Sequence[bytes | None]) -> Blobs | None:
    """Return the array; None if every value is None."""
    return _pack(Blobs, values)


def pack_optional_texts(values: Sequence[str | None]) -> Texts | None:
    """Return the array; None if every value is None."""
    return _pack(Texts, [None if value is None else value.encode() for value in values])


def pack_texts(values: Sequence[str]) -> Texts:
    """Return the array of texts none of which is None."""
    packed = _pack(Texts, [value.encode() for value in values])
    return packed if packed is not None else Texts(struct.pack(">iiI", 0, 0, Texts.element_oid))


def pack_booleans(values: Sequence[bool]) -> Booleans | None:
    """Return the array; None if every value is False."""
    if not any(values):
        return None
    return _pack(Booleans, [b"\1" if value else b"\0" for value in values])


def pack_bigints(values: Sequence[int | None]) -> Bigints | None:
    """Return the array; None if every value is None."""
    return _pack_numbers(Bigints, values, "q", 8)


def pack_integers(values: Sequence[int | None]) -> Integers | None:
    """Return the array; None if every value is None."""
    return _pack_numbers(Integers, values, "i", 4)


def _header(kind: type[Array], count: int, *, has_nulls: bool) -> bytes:
    return struct.pack(">iiIii", 1, int(has_nulls), kind.element_oid, count, 1)


def _pack_length(value: bytes) -> bytes:
    length = len(value)
    return _LENGTHS[length] if length < len(_LENGTHS) else struct.pack(">i", length)


def _pack(kind: type[A], values: Sequence[bytes | None]) -> A | None:
    present = [value for value in values if value is not None]
    nulls = len(values) - len(present)
    if not nulls and len(set(map(len, present))) == 1:  # ids and tokens have equal lengths: one join packs all
        length = _pack_length(present[0])
        return kind(_header(kind, len(present), has_nulls=False) + length + length.join(present))
    if not present:
        return None
    parts = [_header(kind, len(values), has_nulls=nulls > 0)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(_pack_length(value))
            parts.append(value)
    return kind(b"".join(parts))


def _pack_numbers(kind: type[A], values: Sequence[int | None], code: str, width: int) -> A | None:
    if None in values:
        return _pack(kind, [None if value is None else struct.pack(f">{code}", value) for value in values])
    if not values:
        return None
    flat: list[Any] = [width] * (2 * len(values))
    flat[1::2] = values
    return kind(_header(kind, len(values), has_nulls=False) + struct.pack(f">{f'i{code}' * len(values)}", *flat))


def unpack(array: Array) -> list[Any]:
    """Return the elements of a packed column, for a database driver that packs arrays itself."""
    if len(array) == _EMPTY_BYTES:
        return []
    (count,) = struct.unpack_from(">i", array, _COUNT_OFFSET)
    read = _READERS[type(array)]
    values: list[Any] = []
    offset = _HEADER_BYTES
    for _ in range(count):
        (length,) = struct.unpack_from(">i", array, offset)
        offset += 4
        if length < 0:
            values.append(None)
        else:
            values.append(read(array[offset : offset + length]))
            offset += length
    return values


def _read_number(value: bytes) -> int:
    return int.from_bytes(value, signed=True)


_EMPTY_BYTES, _COUNT_OFFSET, _HEADER_BYTES = 12, 12, 20
_READERS: dict[type[Array], Callable[[bytes], Any]] = {
    Texts: bytes.decode,
    Blobs: bytes,
    Bigints: _read_number,
    Integers: _read_number,
    Booleans: any,
}


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Array) -> Array:
        return obj


_DUMPERS = [
    (kind, type(f"{kind.__name__}Dumper", (_ArrayDumper,), {"oid": kind.oid}))
    for kind in (Texts, Blobs, Bigints, Integers, Booleans)
]


def register(adapters: AdaptersMap) -> None:
    """Let a connection or a cursor send packed arrays."""
    for kind, dumper in _DUMPERS:
        adapters.register_dumper(kind, dumper)
