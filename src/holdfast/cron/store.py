"""``ScheduleStore``: the entries of schedulers in the registry of a space, and the clock of the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.clock import MINUTE
from holdfast.cron.entries import (
    DUE_KIND,
    INSTANT_DIGITS,
    STATE_KIND,
    WATCH_KIND,
    DueKey,
    Stored,
    changes_of,
    in_key_order,
    read_due_key,
    read_state,
)
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.store import Store
from holdfast.errors import Unsupported
from holdfast.model.registry import Change

CLOCK_KIND, CLOCK_KEY = "schedule.clock", "clock"
FIRST_PAGE_ENTRIES = 16  # of the index: all that a tick reads while nothing is due
PAGE_ENTRIES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What the index says: the keys that are due, and the instant of the first key that is not."""

    keys: list[DueKey]
    next_instant: int | None
    is_cut: bool = False  # there may be more that is due


class ScheduleStore:
    """Reads and writes the entries of schedulers. Every method is one call of the store, unless it says otherwise."""

    def __init__(self, store: Store) -> None:
        """Raise ``Unsupported`` for a store without a registry."""
        gap = store.capabilities.gaps.get(Feature.REGISTRY)
        if gap is not None:
            raise Unsupported(store.capabilities.driver, "schedules", gap)
        self.store = store

    def now(self) -> int:
        """Return the clock of the store: it adds the TTL of an entry to its own clock."""
        change = Change(kind=CLOCK_KIND, key=CLOCK_KEY, value=b"", ttl=MINUTE)
        [entry] = self.store.write([change])
        assert entry is not None
        assert entry.expires_at is not None
        return entry.expires_at - MINUTE

    def due(self, now: int, most: int) -> Due:
        """Return what is due, oldest first: one call if that is little, and one for each ``PAGE_ENTRIES`` more."""
        keys: list[DueKey] = []
        after, limit = "", FIRST_PAGE_ENTRIES
        while len(keys) < most:
            entries = self.store.scan(DUE_KIND, after=after, limit=limit)
            for entry in entries:
                instant = int(entry.key[:INSTANT_DIGITS])
                if instant > now:
                    return Due(keys=keys, next_instant=instant)
                key = read_due_key(entry.key)
                if key is not None:
                    keys.append(key)
            if len(entries) < limit:
                return Due(keys=keys, next_instant=None)
            after, limit = entries[-1].key, PAGE_ENTRIES
        return Due(keys=keys, next_instant=None, is_cut=True)

    def states(self, names: Iterable[str]) -> dict[str, Stored | None]:
        """Return the states of these schedules, by name. No call if there are none.

        Names without a state are left out. None is a state that this version of Holdfast cannot read.
        """
        wanted = list(names)
        entries = self.store.read(STATE_KIND, wanted) if wanted else []
        return {entry.key: read_state(entry) for entry in entries if entry is not None}

    def list_states(self, *, after: str = "", limit: int = 100) -> list[Stored]:
        """Return the states of a page of schedules, ordered by name. Those that cannot be read are left out."""
        found = (read_state(entry) for entry in self.store.scan(STATE_KIND, after=after, limit=limit))
        return [one for one in found if one is not None]

    def replace(self, before: Stored | None, after: Stored | None) -> int | None:
        """Create, replace or remove a state and its key in the index.

        Returns the new version, 0 after a removal; None if the entry had another version.
        """
        [version] = self.write_groups([changes_of(before, after)])
        return version

    def write_groups(self, groups: Sequence[Sequence[Change]]) -> list[int | None]:
        """Make groups of changes in one transaction; return the new versions of the first change of each group.

        Where it is None because the entry had another version, a second call removes what the group has added.
        """
        answers = iter(self.store.write([change for group in groups for change in group]))
        versions: list[int | None] = []
        undo: list[Change] = []
        for group in groups:
            (_, first), *others = [(change, next(answers)) for change in group]
            versions.append(None if first is None else first.version)
            if first is None:
                undo += [
                    Change(kind=change.kind, key=change.key, value=None, version=entry.version)
                    for change, entry in others
                    if change.value is not None and entry is not None
                ]
        if undo:
            self.store.write(in_key_order(undo))
        return versions

    def remove_due(self, keys: Sequence[DueKey]) -> None:
        """Remove keys of the index that do not count, and the watches of an older version. No call without keys."""
        changes = [Change(kind=DUE_KIND, key=key.text, value=None) for key in keys]
        changes += [Change(kind=WATCH_KIND, key=key.key, value=None) for key in keys if key.kind == WATCH_KIND]
        if changes:
            self.store.write(in_key_order(changes))
