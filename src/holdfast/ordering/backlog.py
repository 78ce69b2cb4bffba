"""The offsets that wait in a domain, in order of arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from holdfast.model.interval_set import IntervalSet


class Backlog:
    """A queue of offsets, each at most once. Offsets that arrive one after another take one run ``first..last``."""

    __slots__ = ("_members", "_runs")

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self._runs = deque(runs)
        self._members = IntervalSet.of_ranges(sorted(self._runs))

    def runs(self) -> list[tuple[int, int]]:
        """Return the runs in order of arrival."""
        return list(self._runs)

    @property
    def run_count(self) -> int:
        """The number of runs."""
        return len(self._runs)

    @property
    def lowest(self) -> int | None:
        """The smallest offset; None if the queue is empty."""
        return self._members.lowest

    @property
    def highest(self) -> int | None:
        """The largest offset; None if the queue is empty."""
        return self._members.highest

    def peek(self) -> int | None:
        """Return the offset that has waited longest; None if the queue is empty."""
        return self._runs[0][0] if self._runs else None

    def append(self, offset: int) -> None:
        """Add an offset that is not in the queue, as the last one."""
        if self.continues_run(offset):
            self._runs[-1] = (self._runs[-1][0], offset)
        else:
            self._runs.append((offset, offset))
        self._members.add(offset)

    def continues_run(self, offset: int) -> bool:
        """Whether the offset follows the last one, and needs no run of its own."""
        return bool(self._runs) and self._runs[-1][1] + 1 == offset

    def popleft(self) -> int:
        """Remove and return the offset that has waited longest."""
        offset = self._runs[0][0]
        self.drop(1)
        return offset

    def drop(self, count: int) -> None:
        """Remove the first ``count`` offsets."""
        while count:
            first, last = self._runs.popleft()
            taken = min(count, last - first + 1)
            if first + taken <= last:
                self._runs.appendleft((first + taken, last))
            self._members.discard_range(first, first + taken - 1)
            count -= taken

    def __contains__(self, offset: object) -> bool:
        return offset in self._members

    def __iter__(self) -> Iterator[int]:
        for first, last in self._runs:
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return len(self._members)
