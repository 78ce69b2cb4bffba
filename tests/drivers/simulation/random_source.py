"""Random choices from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class RandomSource(Random):
    """Random choices for small ranges, several times faster than the exact ``choice`` and ``randrange``."""

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[int(self.random() * len(options))]

    def below(self, end: int) -> int:
        """Return a number from 0 to ``end - 1``."""
        return int(self.random() * end)

    def between(self, start: int, end: int) -> int:
        """Return a number from ``start`` to ``end - 1``."""
        return start + int(self.random() * (end - start))

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random() < probability
