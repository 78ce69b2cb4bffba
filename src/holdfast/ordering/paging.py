"""Pages of offsets: a call reads and writes only a part of a large set or queue (``PagedSet``, ``PagedBacklog``).

A set or a queue is a list of pages. The last page is kept in the entry of the domain, where almost all changes happen.
The other pages are chunks: entries of their own, which the entry of the domain names, with the bounds of their offsets.
A chunk never changes. A page that changes becomes a new chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import msgspec

MAX_INLINE_RANGES = 512  # of the last page; about 3 to 9 KiB
MAX_CHUNK_RANGES = 2048  # 36 KiB at most: a range has two numbers of at most 9 bytes

Load = Callable[[Sequence[str]], list[bytes]]  # the contents of chunks
Store = Callable[[bytes], str]  # store a new chunk and return its name


class PageEntry(msgspec.Struct, array_like=True):
    """A page in the entry of a domain: the bounds, and the chunk or the ranges. A page of one range needs neither."""

    lowest: int
    highest: int
    count: int  # ranges of a set, offsets of a queue
    chunk: str | None = None
    skipped: int = 0  # of a queue: how many offsets of the chunk have left it
    ranges: list[int] | None = None


def pack(ranges: Sequence[tuple[int, int]]) -> bytes:
    """Return the content of a chunk."""
    return msgspec.msgpack.encode(flatten(ranges))


def unpack(content: bytes) -> list[tuple[int, int]]:
    """Return the ranges of a chunk."""
    return pair(msgspec.msgpack.decode(content, type=list[int]))


def flatten(ranges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the numbers of all ranges."""
    return list(chain.from_iterable(ranges))


def pair(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the ranges that ``flatten`` made numbers of."""
    return list(zip(numbers[::2], numbers[1::2], strict=True))
