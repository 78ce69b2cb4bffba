"""The calls of a store object that ended expired leases, until somebody asks for the leases (``ExpiredLeases``)."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

MAX_REMEMBERED_CALLS = 10  # nobody may ever ask; one call ends up to REAP_LIMIT leases

T = TypeVar("T")


class RememberedCalls(Generic[T]):
    """Where the ledger has the rows of each call. Safe to share between threads."""

    def __init__(self) -> None:
        self._places: deque[T] = deque(maxlen=MAX_REMEMBERED_CALLS)

    def add(self, place: T) -> None:
        """Remember a call; forget the oldest one if there are too many."""
        self._places.append(place)

    def take(self) -> list[T]:
        """Return the places of the remembered calls, oldest first, and forget them."""
        places = []
        while self._places:
            try:
                places.append(self._places.popleft())
            except IndexError:  # another thread has taken the last one
                break
        return places
