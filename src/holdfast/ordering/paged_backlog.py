"""A backlog in pages: a call needs its first and its last page, and those whose bounds contain its offset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from holdfast.ordering import paging
from holdfast.ordering.backlog import Backlog
from holdfast.ordering.paging import Load, PageEntry, Store, flatten, pack, pair, unpack


@dataclass(slots=True)
class _QueuePage:
    lowest: int
    highest: int
    count: int
    chunk: str | None = None
    skipped: int = 0
    content: Backlog | None = None


class PagedBacklog:
    """A queue of offsets. Its pages are in order of arrival; the offsets of two pages may lie between one another."""

    def __init__(self, entries: Sequence[PageEntry], load: Load) -> None:
        self._load = load
        self._pages = [
            _QueuePage(
                entry.lowest,
                entry.highest,
                entry.count,
                entry.chunk,
                entry.skipped,
                None if entry.ranges is None else Backlog(pair(entry.ranges)),
            )
            for entry in entries
        ]

    @property
    def lowest(self) -> int | None:
        """The smallest offset; None if the queue is empty."""
        first = [offset for content in self._contents(self._pages[:1]) if (offset := content.lowest) is not None]
        return min([*first, *(page.lowest for page in self._pages[1:])], default=None)

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        pages = [page for page in self._pages if page.lowest <= offset <= page.highest]
        return any(offset in content for content in self._contents(pages))

    def peek(self) -> int | None:
        """Return the head; None if the queue is empty."""
        return next(iter(self._contents(self._pages[:1])[0]), None) if self._pages else None

    def popleft(self) -> int:
        """Remove and return the head."""
        page = self._pages[0]
        [content] = self._contents([page])
        offset = content.popleft()
        page.count -= 1
        if not page.count:
            del self._pages[0]
        elif page.chunk is not None:
            page.skipped += 1  # the chunk itself stays as it is
        return offset

    def append(self, offset: int) -> None:
        """Add an offset at the tail."""
        last = self._pages[-1].content if self._pages else None
        if last is None or (last.run_count >= paging.MAX_INLINE_RANGES and not last.continues_run(offset)):
            last = Backlog()
            self._pages.append(_QueuePage(offset, offset, 0, content=last))
        last.append(offset)
        page = self._pages[-1]
        page.lowest, page.highest, page.count = min(page.lowest, offset), max(page.highest, offset), page.count + 1

    def to_entries(self, store: Store) -> list[PageEntry]:
        """Return the pages for the entry of the domain; store those that are new chunks."""
        return [self._to_entry(page, store) for page in self._pages]

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._contents(self._pages))

    def _contents(self, pages: Sequence[_QueuePage]) -> list[Backlog]:
        """Return the contents of these pages; reads the chunks of all of them in one call."""
        missing = [page for page in pages if page.content is None]
        for page, content in zip(missing, self._load([page.chunk or "" for page in missing]), strict=True):
            page.content = Backlog(unpack(content))
            page.content.drop(page.skipped)
        return [page.content for page in pages if page.content is not None]

    def _to_entry(self, page: _QueuePage, store: Store) -> PageEntry:
        if page is self._pages[-1] and page.content is not None:
            lowest, highest = page.content.lowest, page.content.highest
            assert lowest is not None
            assert highest is not None
            return PageEntry(lowest, highest, page.count, ranges=flatten(page.content.runs()))
        if page.chunk is None:
            assert page.content is not None
            page.chunk = store(pack(page.content.runs()))
        return PageEntry(page.lowest, page.highest, page.count, page.chunk, page.skipped)
