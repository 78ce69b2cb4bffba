"""Columns of a batch as PostgreSQL arrays in their binary form.

psycopg can send lists, but looks at every element; a batch of a thousand jobs has twenty columns. Here a column is
packed in one go, and one that no job sets is NULL.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format

_LENGTHS = [struct.pack(">i", length) for length in range(1024)]
_NULL = struct.pack(">i", -1)


class Array(bytes):
    """A packed column; its class says of which type."""

    __slots__ = ()
    element: ClassVar[int]
    oid: ClassVar[int]


A = TypeVar("A", bound=Array)


class Texts(Array):
    """``text[]``."""

    __slots__ = ()
    element, oid = 25, 1009


class Blobs(Array):
    """``bytea[]``."""

    __slots__ = ()
    element, oid = 17, 1001


class Bigints(Array):
    """``bigint[]``."""

    __slots__ = ()
    element, oid = 20, 1016


class Integers(Array):
    """``integer[]``."""

    __slots__ = ()
    element, oid = 23, 1007


class Booleans(Array):
    """``boolean[]``."""

    __slots__ = ()
    element, oid = 16, 1000


def _header(kind: type[Array], count: int, *, nulls: bool) -> bytes:
    return struct.pack(">iiIii", 1, int(nulls), kind.element, count, 1)


def blobs(values: Sequence[bytes | None]) -> Blobs | None:
    """NULL if every value is None."""
    return _packed(Blobs, values)


def texts(values: Sequence[str | None]) -> Texts | None:
    """NULL if every value is None."""
    return _packed(Texts, [None if value is None else value.encode() for value in values])


def names(values: Sequence[str]) -> Texts:
    """Texts none of which is None."""
    packed = _packed(Texts, [value.encode() for value in values])
    return packed if packed is not None else Texts(struct.pack(">iiI", 0, 0, Texts.element))


def booleans(values: Sequence[bool]) -> Booleans | None:
    """NULL if every value is False."""
    if not any(values):
        return None
    return _packed(Booleans, [b"\1" if value else b"\0" for value in values])


def _length_of(value: bytes) -> bytes:
    length = len(value)
    return _LENGTHS[length] if length < len(_LENGTHS) else struct.pack(">i", length)


def _packed(kind: type[A], values: Sequence[bytes | None]) -> A | None:
    given = [value for value in values if value is not None]
    nulls = len(values) - len(given)
    if not nulls and len(set(map(len, given))) == 1:  # ids and tokens are like this: one join for all
        length = _length_of(given[0])
        return kind(_header(kind, len(given), nulls=False) + length + length.join(given))
    if not given:
        return None
    parts = [_header(kind, len(values), nulls=nulls > 0)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(_length_of(value))
            parts.append(value)
    return kind(b"".join(parts))


def bigints(values: Sequence[int | None]) -> Bigints | None:
    """NULL if every value is None."""
    return _numbers(Bigints, values, "q", 8)


def integers(values: Sequence[int | None]) -> Integers | None:
    """NULL if every value is None."""
    return _numbers(Integers, values, "i", 4)


def _numbers(kind: type[A], values: Sequence[int | None], code: str, width: int) -> A | None:
    if None in values:
        return _packed(kind, [None if value is None else struct.pack(f">{code}", value) for value in values])
    if not values:
        return None
    flat: list[Any] = [width] * (2 * len(values))
    flat[1::2] = values
    return kind(_header(kind, len(values), nulls=False) + struct.pack(f">{f'i{code}' * len(values)}", *flat))


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Array) -> Array:
        return obj


def register(adapters: AdaptersMap) -> None:
    """Teach a connection or a cursor to send packed columns."""
    for kind in (Texts, Blobs, Bigints, Integers, Booleans):
        adapters.register_dumper(kind, type(f"{kind.__name__}Dumper", (_ArrayDumper,), {"oid": kind.oid}))
