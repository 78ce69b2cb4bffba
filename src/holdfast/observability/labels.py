"""Labels with a bounded number of values: a metric must not grow with the names that users invent."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model.fingerprint import normalise

MAX_NAMES = 200  # pairs of a queue and a type that one process exports
MAX_REASONS = 20  # texts of handlers that one worker exports
MAX_REASON_CHARACTERS = 60
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


class BoundedReasons:
    """The reasons of dead letters: those of Holdfast, and the first texts of handlers; every later text is ``other``.

    Numbers, ids, addresses and quoted texts become placeholders: else each customer would have a label.
    """

    def __init__(self, own: Iterable[str]) -> None:
        self._own = frozenset(own)
        self._texts: set[str] = set()

    def __call__(self, reason: str) -> str:
        """Return the label that stands for a reason."""
        if reason in self._own:
            return reason
        text = normalise(reason)[:MAX_REASON_CHARACTERS].strip()
        if not text or (text not in self._texts and len(self._texts) >= MAX_REASONS):
            return OTHER
        self._texts.add(text)
        return text


def job_labels(names: JobNames) -> dict[str, str]:
    """Return a pair of names as labels."""
    return {"queue": names[0], "type": names[1]}
