"""The registry: a dictionary of entries, changed by compare-and-set."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.drivers.memory.rows import Counter
from holdfast.errors import WriteRefused
from holdfast.model.lease import is_expired
from holdfast.model.registry import Change, Entry


class RegistryTable:
    """The registry of one space. Versions come from the counter of the space, so none is used twice."""

    def __init__(self, counter: Counter) -> None:
        self.entries: dict[tuple[str, str], Entry] = {}  # by kind and key
        self._counter = counter

    def read(self, kind: str, key: str, now: int) -> Entry | None:
        """Return an entry that has not expired."""
        entry = self.entries.get((kind, key))
        return None if entry is None or _has_expired(entry, now) else entry

    def find_conflict(self, changes: Sequence[Change], now: int) -> Change | None:
        """Return the first change whose expected version is not the current one."""
        for change in changes:
            entry = self.read(change.kind, change.key, now)
            if change.version is not None and change.version != (0 if entry is None else entry.version):
                return change
        return None

    def apply(self, change: Change, now: int) -> Entry:
        """Make a change without a conflict."""
        if change.value is None:
            self.entries.pop((change.kind, change.key), None)
            return Entry(key=change.key, value=None, version=0)
        entry = Entry(
            key=change.key,
            value=change.value,
            version=self._counter.take(1),
            expires_at=None if change.ttl is None else now + change.ttl,
        )
        self.entries[change.kind, change.key] = entry
        return entry

    def write_all(self, changes: Sequence[Change], now: int, *, job_id: str) -> WriteRefused | None:
        """Make all changes that belong to a job; make none, and return the refusal, if one has a conflict."""
        conflict = self.find_conflict(changes, now)
        if conflict is not None:
            return WriteRefused(job_id, kind=conflict.kind, key=conflict.key)
        for change in changes:
            self.apply(change, now)
        return None

    def write(self, changes: Sequence[Change], now: int, *, together: bool = False) -> list[Entry | None]:
        """Make the changes in order, each only if the entry has the expected version; ``together``: all or none."""
        if together and self.find_conflict(changes, now) is not None:
            return [None] * len(changes)
        return [self.apply(change, now) if self.find_conflict((change,), now) is None else None for change in changes]

    def scan(self, kind: str, *, prefix: str, after: str, limit: int, now: int) -> list[Entry]:
        """Return the entries of a kind whose keys begin with ``prefix``, ordered by key, after the key ``after``."""
        keys = sorted(key for of, key in self.entries if of == kind and key.startswith(prefix) and key > after)
        entries = (self.read(kind, key, now) for key in keys)
        return [entry for entry in entries if entry is not None][:limit]

    def trim(self, now: int, limit: int) -> int:
        """Remove expired entries and return how many."""
        expired = [place for place, entry in self.entries.items() if _has_expired(entry, now)][:limit]
        for place in expired:
            del self.entries[place]
        return len(expired)


def _has_expired(entry: Entry, now: int) -> bool:
    return entry.expires_at is not None and is_expired(entry.expires_at, now)
