"""What does not fit the head of a domain: ended offsets move into chunks, the middle of the backlog into parts.

The head keeps the latest ended offsets and both ends of the backlog, where nearly all changes happen.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

from holdfast.model.interval_set import IntervalSet
from holdfast.ordering import chunks
from holdfast.ordering.chunks import Range, pack_chunk, split_ranges, unpack_chunk
from holdfast.ordering.domain_entries import (
    CHUNK,
    DomainEntries,
    Head,
    Values,
    chunk_name,
    chunk_number,
    part_name,
)

MAX_RANGES = 512  # of a set in the head, of each end of the backlog, and of a part of it: 3 to 9 KiB
MAX_MOVED_CHUNKS = 500  # to which one write moves ranges of a set
MAX_REMOVED_CHUNKS = 100  # by one write


def move_out(head: Head, entries: DomainEntries) -> Values:
    """Remove from the head what does not fit, and return the entries that take it; none if all fits."""
    return _move_backlog(head, entries) | _remove_chunks(head, entries) | _move_ended(head, entries)


def _move_backlog(head: Head, entries: DomainEntries) -> Values:
    """Keep the ends of the backlog in the head: fill the first one from the first part, cut the last one."""
    values: Values = {}
    if head.parts and not head.closed:
        [runs] = entries.read_parts([head.first_part])
        values[part_name(head.first_part)] = None
        head.backlog_runs[:0], head.closed = runs, len(runs)
        head.parts, head.first_part = head.parts[1:], head.first_part + 1
    start = head.closed or MAX_RANGES
    while len(head.backlog_runs) > start + MAX_RANGES:
        head.closed, part = start, head.backlog_runs[start : start + MAX_RANGES]
        values[part_name(head.first_part + len(head.parts))] = msgspec.msgpack.encode(part)
        head.parts = [*head.parts, (min(first for first, _ in part), max(last for _, last in part))]
        del head.backlog_runs[start : start + MAX_RANGES]
    return values


def _remove_chunks(head: Head, entries: DomainEntries) -> Values:
    """Remove chunks whose offsets are all below the first gap: the head says that they are processed."""
    covered = IntervalSet.of_ranges(head.processed_ranges[:1]).first_missing(0)
    if head.first_end is None or head.first_end >= covered:
        return {}
    found = entries.scan(CHUNK, limit=MAX_REMOVED_CHUNKS)
    ends = {name: _last_offset(chunk_number(name), *unpack_chunk(entry)) for name, entry in found.items()}
    left = [end for end in ends.values() if end >= covered]
    head.first_end = min(left or ends.values()) if left or len(ends) == MAX_REMOVED_CHUNKS else None
    return {name: None for name, end in ends.items() if end < covered}


def _move_ended(head: Head, entries: DomainEntries) -> Values:
    """Move short ranges into their chunks; a full chunk becomes a range of the head."""
    head.processed_ranges, processed = _divide(head.processed_ranges)
    head.failed_ranges, failed = _divide(head.failed_ranges)
    values: Values = {}
    numbers = sorted(processed.keys() | failed.keys())
    for number, entry in zip(numbers, entries.read([chunk_name(one) for one in numbers]), strict=True):
        first, last = number * chunks.SPAN, (number + 1) * chunks.SPAN - 1
        inside = [
            (max(low, first), min(high, last)) for low, high in head.processed_ranges if low <= last and first <= high
        ]
        old_processed, old_failed = unpack_chunk(entry)
        bits = processed[number] | old_processed | split_ranges(inside)[number], failed[number] | old_failed
        if bits[0].bit_count() == chunks.SPAN:
            head.processed_ranges = IntervalSet.of_ranges([*head.processed_ranges, (first, last)]).ranges()
            values[chunk_name(number)] = None
        else:
            end = _last_offset(number, *bits)
            head.first_end = end if head.first_end is None else min(head.first_end, end)
            values[chunk_name(number)] = pack_chunk(*bits)
    return values


def _divide(ranges: list[Range]) -> tuple[list[Range], defaultdict[int, int]]:
    """Return the ranges that stay in the head, and the bits of the others by the numbers of their chunks.

    A range as long as a chunk stays, and so does the one that begins with 0: it says which chunks are not needed.
    """
    short = [one for one in ranges if one[0] and one[1] - one[0] < chunks.SPAN - 1]
    if len(short) <= MAX_RANGES:
        return ranges, split_ranges(())
    lower = short[: len(short) - MAX_RANGES // 8]  # offsets mostly grow: the upper ones may still grow together
    numbers = sorted({first // chunks.SPAN for first, _ in lower})[:MAX_MOVED_CHUNKS]
    moved = {one for one in lower if one[0] // chunks.SPAN <= numbers[-1]}
    return [one for one in ranges if one not in moved], split_ranges(moved)


def _last_offset(number: int, processed: int, failed: int) -> int:
    return number * chunks.SPAN + (processed | failed).bit_length() - 1
