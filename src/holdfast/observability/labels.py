"""Labels with a bounded number of values: a metric must not grow with the names that users invent."""

from __future__ import annotations

from collections.abc import Iterable

MAX_NAMES = 200  # pairs of a queue and a type that one process exports
OTHER = "other"

JobNames = tuple[str, str]  # queue and type


class BoundedNames:
    """The first ``most`` pairs of a queue and a type; every later pair becomes ``other``."""

    def __init__(self, most: int = MAX_NAMES, known: Iterable[JobNames] = ()) -> None:
        self._most = most
        self._known: set[JobNames] = set(known)

    def __call__(self, names: JobNames) -> JobNames:
        """Return the pair that stands for a pair of names."""
        if names in self._known:
            return names
        if len(self._known) >= self._most:
            return OTHER, OTHER
        self._known.add(names)
        return names


def job_labels(names: JobNames) -> dict[str, str]:
    """Return a pair of names as labels."""
    return {"queue": names[0], "type": names[1]}
