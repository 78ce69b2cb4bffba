"""A set of offsets, kept as ranges: its size depends on the number of gaps, not on the number of offsets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain


class IntervalSet(AbstractSet[int]):
    """A set of whole numbers, exact. One range ``first..last`` for each run of consecutive numbers."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for offset in offsets:
            self.add(offset)

    @classmethod
    def of_ranges(cls, ranges: Iterable[tuple[int, int]]) -> IntervalSet:
        """Return the union of ranges, each with its first and its last number."""
        made = cls()
        for first, last in ranges:
            made.add_range(first, last)
        return made

    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges in ascending order. No two of them overlap or touch."""
        return list(zip(self._firsts, self._lasts, strict=True))

    @property
    def lowest(self) -> int | None:
        """The smallest number; None if the set is empty."""
        return self._firsts[0] if self._firsts else None

    @property
    def highest(self) -> int | None:
        """The largest number; None if the set is empty."""
        return self._lasts[-1] if self._lasts else None

    def add(self, offset: int) -> None:
        """Add one number."""
        self.add_range(offset, offset)

    def add_range(self, first: int, last: int) -> None:
        """Add all numbers from ``first`` to ``last``."""
        start = bisect_left(self._lasts, first - 1)  # the ranges from start to stop overlap or touch the new one
        stop = bisect_right(self._firsts, last + 1)
        if start < stop:
            first = min(first, self._firsts[start])
            last = max(last, self._lasts[stop - 1])
        self._firsts[start:stop] = [first]
        self._lasts[start:stop] = [last]

    def discard(self, offset: int) -> None:
        """Remove one number, if it is there."""
        self.discard_range(offset, offset)

    def discard_range(self, first: int, last: int) -> None:
        """Remove all numbers from ``first`` to ``last`` that are there."""
        start = bisect_left(self._lasts, first)  # the ranges from start to stop overlap the removed one
        stop = bisect_right(self._firsts, last)
        if start >= stop:
            return
        lowest, highest = self._firsts[start], self._lasts[stop - 1]
        left = [(lowest, first - 1)] if lowest < first else []
        right = [(last + 1, highest)] if last < highest else []
        self._firsts[start:stop] = [part[0] for part in left + right]
        self._lasts[start:stop] = [part[1] for part in left + right]

    def fill_below(self, limit: int) -> None:
        """Add all numbers from 0 to ``limit - 1``."""
        if limit > 0:
            self.add_range(0, limit - 1)

    def discard_below(self, limit: int) -> None:
        """Remove all numbers below ``limit``."""
        gone = bisect_left(self._lasts, limit)
        del self._firsts[:gone], self._lasts[:gone]
        if self._firsts:
            self._firsts[0] = max(self._firsts[0], limit)

    def first_missing(self, start: int) -> int:
        """Return the smallest number from ``start`` on that is not in the set."""
        place = bisect_left(self._lasts, start)
        return self._lasts[place] + 1 if place < len(self._lasts) and self._firsts[place] <= start else start

    def __contains__(self, offset: object) -> bool:
        return isinstance(offset, int) and self.first_missing(offset) != offset

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(range(first, last + 1) for first, last in self.ranges())

    def __bool__(self) -> bool:  # the length may be more than ``len`` can return
        return bool(self._firsts)

    def __len__(self) -> int:
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __repr__(self) -> str:
        shown = ", ".join(str(first) if first == last else f"{first}..{last}" for first, last in self.ranges())
        return f"{type(self).__name__}({shown})"
