"""Domains as an older version stored them, in format 1: the sets and the backlog were lists of pages.

A page was in the head, or a chunk that the head named. A page of a set with one range had no more than its bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from holdfast.model.registry import Entry
from holdfast.ordering.chunks import Range
from holdfast.ordering.domain_entries import FORMAT, HEAD, Head


class _Page(msgspec.Struct, array_like=True):
    lowest: int
    highest: int
    count: int
    chunk: str | None = None
    skipped: int = 0  # of a backlog: how many offsets of the chunk have left it
    ranges: list[int] | None = None


def read_paged_head(entries: Mapping[str, Entry]) -> Head:
    """Return a head that has all offsets of the domain with these entries."""
    fields = msgspec.msgpack.decode(entries[HEAD].value or b"")
    for name, old in (("processed_ranges", "processed"), ("failed_ranges", "failed"), ("backlog_runs", "backlog")):
        pages = msgspec.convert(fields.get(old, []), list[_Page])
        fields[name] = [one for page in pages for one in _ranges_of(page, entries)]
    return msgspec.convert({**fields, "format": FORMAT}, Head)


def _ranges_of(page: _Page, entries: Mapping[str, Entry]) -> Iterator[Range]:
    numbers = page.ranges or [page.lowest, page.highest]
    if page.chunk is not None:
        numbers = msgspec.msgpack.decode(entries[f".{page.chunk}"].value or b"", type=list[int])
    skipped = page.skipped
    for first, last in zip(numbers[::2], numbers[1::2], strict=True):
        start = min(first + skipped, last + 1)
        skipped -= start - first
        if start <= last:
            yield start, last
