"""``Turn``: lets one of several processes do what would be wasted if all did it.

It saves work and decides nothing: what the processes write is written by compare-and-set. A process that dies keeps
its turn for a few seconds.
"""

from __future__ import annotations

from holdfast.clock import SECOND, monotonic
from holdfast.drivers.requests import Read, Write
from holdfast.drivers.store import Store
from holdfast.model.registry import Change

KIND = "webhooks.turn"
TURN_SECONDS = 5
RENEW_SECONDS = 3.0  # after so long a turn is renewed, if it is still needed


class Turn:
    """The turn of one process at one task in a space. Used by one thread."""

    def __init__(self, store: Store, task: str, *, name: str) -> None:
        self._store = store
        self._task = task
        self._name = name.encode()
        self._version: int | None = None  # of the entry that this process has written
        self._renew_at = 0.0

    def take(self) -> bool:
        """Return whether this process has the turn now; takes or renews it."""
        if self._version is not None and monotonic() < self._renew_at:
            return True
        if self._version is not None and self._write(self._version):
            return True
        [entry] = self._store.do(Read(kind=KIND, keys=[self._task]))
        return entry is None and self._write(0)

    def give_back(self) -> None:
        """Let another process go on at once."""
        if self._version is not None:
            self._store.do(Write(changes=[Change(kind=KIND, key=self._task, value=None, version=self._version)]))
            self._version = None

    def _write(self, version: int) -> bool:
        began = monotonic()
        change = Change(kind=KIND, key=self._task, value=self._name, version=version, ttl=TURN_SECONDS * SECOND)
        [entry] = self._store.do(Write(changes=[change]))
        self._version = None if entry is None else entry.version
        self._renew_at = began + RENEW_SECONDS
        return entry is not None
