"""The offsets that wait in a domain, in order of arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from holdfast.model.interval_set import IntervalSet


class Backlog:
    """A queue of offsets, each at most once. Offsets that arrive one after another take one run ``first..last``.

    The middle of the queue may be elsewhere, behind the first ``closed`` runs. Then some of its offsets are noted.
    """

    __slots__ = ("_members", "_runs", "closed")

    def __init__(self, runs: Iterable[tuple[int, int]] = (), *, closed: int = 0) -> None:
        self._runs = deque(runs)
        self._members = IntervalSet.of_ranges(sorted(self._runs))
        self.closed = closed

    def note(self, offset: int) -> None:
        """Note that an offset is in the middle."""
        self._members.add(offset)

    def runs(self) -> list[tuple[int, int]]:
        """Return the runs in order of arrival."""
        return list(self._runs)

    @property
    def lowest(self) -> int | None:
        """The smallest offset; None if the queue is empty."""
        return self._members.lowest

    def peek(self) -> int | None:
        """Return the offset that has waited longest; None if the queue is empty."""
        return self._runs[0][0] if self._runs else None

    def append(self, offset: int) -> None:
        """Add an offset that is not in the queue, as the last one."""
        if len(self._runs) > self.closed and self._runs[-1][1] + 1 == offset:
            self._runs[-1] = (self._runs[-1][0], offset)
        else:
            self._runs.append((offset, offset))
        self._members.add(offset)

    def popleft(self) -> int:
        """Remove and return the offset that has waited longest."""
        first, last = self._runs.popleft()
        if first < last:
            self._runs.appendleft((first + 1, last))
        else:
            self.closed = max(self.closed - 1, 0)
        self._members.discard(first)
        return first

    def __contains__(self, offset: object) -> bool:
        return offset in self._members

    def __iter__(self) -> Iterator[int]:
        for first, last in self._runs:
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return len(self._members)
