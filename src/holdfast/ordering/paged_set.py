"""A set of offsets in pages: most calls need only its last page, and no call more than three."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from holdfast.model.interval_set import IntervalSet
from holdfast.ordering import paging
from holdfast.ordering.paging import Load, PageEntry, Store, flatten, pack, pair, unpack


@dataclass(slots=True)
class _SetPage:
    lowest: int
    highest: int
    count: int
    chunk: str | None = None  # None: not stored as it is now
    content: IntervalSet | None = None  # None: not read


class PagedSet:
    """A set of offsets. Its pages have ascending offsets and do not overlap."""

    def __init__(self, entries: Sequence[PageEntry], load: Load) -> None:
        self._load = load
        self._pages = [
            _SetPage(
                entry.lowest,
                entry.highest,
                entry.count,
                entry.chunk,
                None if entry.ranges is None else IntervalSet.of_ranges(pair(entry.ranges)),
            )
            for entry in entries
        ]

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        place = self._place(offset)
        if place < 0 or offset > self._pages[place].highest:
            return False
        return self._pages[place].count == 1 or offset in self._content(place)

    def add(self, offset: int) -> None:
        """Add an offset."""
        if not self._pages:
            self._pages.append(_SetPage(offset, offset, 1))
            return
        place = max(self._place(offset), 0)
        self._content(place).add(offset)
        self._change(place)

    def fill_below(self, limit: int) -> None:
        """Add all offsets from 0 to ``limit - 1``. Pages below are not read."""
        if limit <= 0:
            return
        self._pages = [page for page in self._pages if page.highest >= limit]
        if not self._pages or self._pages[0].lowest > limit:
            self._pages.insert(0, _SetPage(0, limit - 1, 1))
        elif self._content(0).covers(0, limit - 1):
            return
        else:
            self._content(0).fill_below(limit)
        self._change(0)

    def discard_below(self, limit: int) -> None:
        """Remove all offsets below ``limit``. Pages below are not read."""
        self._pages = [page for page in self._pages if page.highest >= limit]
        if self._pages and self._pages[0].lowest < limit:
            self._content(0).discard_below(limit)
            self._change(0)

    def to_entries(self, store: Store) -> list[PageEntry]:
        """Return the pages for the entry of the domain; store those that are new chunks."""
        return [self._to_entry(place, store) for place in range(len(self._pages))]

    def whole(self) -> IntervalSet:
        """Return the set as one; reads all chunks."""
        missing = [page for page in self._pages if page.content is None and page.chunk is not None]
        for page, content in zip(missing, self._load([page.chunk or "" for page in missing]), strict=True):
            page.content = IntervalSet.of_ranges(unpack(content))
        contents = [self._content(place) for place in range(len(self._pages))]
        return IntervalSet.of_ranges(chain.from_iterable(content.ranges() for content in contents))

    def _place(self, offset: int) -> int:
        """Return the place of the page that has the offset, or would get it; -1 if the offset is below all pages."""
        return bisect_right(self._pages, offset, key=lambda page: page.lowest) - 1

    def _content(self, place: int) -> IntervalSet:
        page = self._pages[place]
        if page.content is None:
            if page.chunk is None:
                page.content = IntervalSet.of_ranges([(page.lowest, page.highest)])
            else:
                page.content = IntervalSet.of_ranges(unpack(self._load([page.chunk])[0]))
        return page.content

    def _change(self, place: int) -> None:
        """Note that the content of a page has changed; split a page that is too large, unite pages that are small."""
        self._measure(place)
        is_last = place == len(self._pages) - 1
        count = self._pages[place].count
        if count > (paging.MAX_INLINE_RANGES if is_last else paging.MAX_CHUNK_RANGES):
            # Offsets mostly grow: the upper part of the last page stays small, so that the lower part seldom changes.
            upper = self._content(place).split(count - max(1, count // 8) if is_last else count // 2)
            self._pages.insert(place + 1, _SetPage(0, 0, 0, content=upper))
            self._measure(place)
            self._measure(place + 1)
            return
        for left in (place, place - 1):
            if 0 <= left < len(self._pages) - 1 and self._is_small(left):
                upper_ranges = self._content(left + 1).ranges()
                for first, last in upper_ranges:
                    self._content(left).add_range(first, last)
                del self._pages[left + 1]
                self._measure(left)

    def _is_small(self, left: int) -> bool:
        return self._pages[left].count + self._pages[left + 1].count <= paging.MAX_INLINE_RANGES // 2

    def _measure(self, place: int) -> None:
        page, content = self._pages[place], self._content(place)
        assert content.lowest is not None
        assert content.highest is not None
        page.lowest, page.highest, page.count, page.chunk = content.lowest, content.highest, content.range_count, None

    def _to_entry(self, place: int, store: Store) -> PageEntry:
        page = self._pages[place]
        if page.count == 1:
            return PageEntry(page.lowest, page.highest, 1)
        if place == len(self._pages) - 1:
            return PageEntry(page.lowest, page.highest, page.count, ranges=flatten(self._content(place).ranges()))
        if page.chunk is None:
            page.chunk = store(pack(self._content(place).ranges()))
        return PageEntry(page.lowest, page.highest, page.count, page.chunk)
