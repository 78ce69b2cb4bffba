"""Chance, from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Dice(Random):
    """``choice`` and ``randrange`` for small ranges, several times quicker than the exact ones they replace."""

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[int(self.random() * len(options))]

    def below(self, end: int) -> int:
        """From 0 to just below ``end``."""
        return int(self.random() * end)

    def between(self, start: int, end: int) -> int:
        """From ``start`` to just below ``end``."""
        return start + int(self.random() * (end - start))

    def chance(self, probability: float) -> bool:
        """True so often."""
        return self.random() < probability
