"""Chunks: which offsets of one fixed range have ended, as bits. Chunk 0 has the offsets from 0 to ``SPAN - 1``."""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from holdfast.model.registry import Entry

SPAN = 1 << 16  # offsets: an entry has at most 16 KiB, and less than 100 bytes if one of its offsets has ended

Range: TypeAlias = tuple[int, int]  # the first and the last offset


def pack_chunk(processed: int, failed: int) -> bytes:
    """Return the value of the entry."""
    bits = processed | failed << SPAN
    return zlib.compress(bits.to_bytes((bits.bit_length() + 7) // 8, "little"), 1)


def unpack_chunk(entry: Entry | None) -> tuple[int, int]:
    """Return the bits of the processed and of the failed offsets; none are set if there is no entry."""
    bits = 0 if entry is None else int.from_bytes(zlib.decompress(entry.value or b""), "little")
    return bits & (1 << SPAN) - 1, bits >> SPAN


def split_ranges(ranges: Iterable[Range]) -> defaultdict[int, int]:
    """Return the bits of these offsets by the numbers of their chunks."""
    bits: defaultdict[int, int] = defaultdict(int)
    for first, last in ranges:
        for number in range(first // SPAN, last // SPAN + 1):
            start = number * SPAN
            bits[number] |= (2 << min(last - start, SPAN - 1)) - (1 << max(first - start, 0))
    return bits


def join_ranges(number: int, bits: int) -> list[Range]:
    """Return the offsets of a chunk as ascending ranges."""
    start = number * SPAN
    return [(start + run.start(), start + run.end() - 1) for run in re.finditer("1+", f"{bits:b}"[::-1])]
