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
    read_due_key,
    read_state,
)
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Read, Scan, Write
from holdfast.drivers.store import Store
from holdfast.errors import Unsupported
from holdfast.model.registry import Change

CLOCK_KIND, CLOCK_KEY = "schedule.clock", "clock"
MAX_TRIES = 10  # of a change, while schedulers change the same schedules
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
        """Raise ``Unsupported`` for a store without a registry, or without keys: a fire has one."""
        gaps = store.capabilities.gaps
        for feature in (Feature.REGISTRY, Feature.KEY):
            if feature in gaps:
                raise Unsupported(store.capabilities.driver, "schedules", gaps[feature])
        self.store = store

    def now(self) -> int:
        """Return the clock of the store: it adds the TTL of an entry to its own clock."""
        change = Change(kind=CLOCK_KIND, key=CLOCK_KEY, value=b"", ttl=MINUTE)
        [entry] = self.store.do(Write(changes=[change]))
        assert entry is not None
        assert entry.expires_at is not None
        return entry.expires_at - MINUTE

    def due(self, now: int, most: int) -> Due:
        """Return what is due, oldest first: one call if that is little, and one for each ``PAGE_ENTRIES`` more."""
        keys: list[DueKey] = []
        after, limit = "", FIRST_PAGE_ENTRIES
        while len(keys) < most:
            entries = self.store.do(Scan(kind=DUE_KIND, after=after, limit=limit))
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
        entries = self.store.do(Read(kind=STATE_KIND, keys=wanted)) if wanted else []
        return {entry.key: read_state(entry) for entry in entries if entry is not None}

    def list_states(self, *, after: str = "", limit: int = 100) -> list[Stored]:
        """Return the states of a page of schedules, ordered by name. Those that cannot be read are left out."""
        found = (read_state(entry) for entry in self.store.do(Scan(kind=STATE_KIND, after=after, limit=limit)))
        return [one for one in found if one is not None]

    def write(self, changes: Sequence[Change]) -> bool:
        """Make all changes, or none if another scheduler has changed one of the entries; return if they are made."""
        return None not in self.store.do(Write(changes=changes, together=True))

    def remove_due(self, keys: Sequence[DueKey]) -> None:
        """Remove keys of the index that do not count, and the watches of an older version. No call without keys."""
        changes = [Change(kind=DUE_KIND, key=key.text, value=None) for key in keys]
        watches = {key.key for key in keys if key.kind == WATCH_KIND}  # an old key may name a watch of another key
        changes += [Change(kind=WATCH_KIND, key=watch, value=None) for watch in watches]
        if changes:
            self.write(changes)
