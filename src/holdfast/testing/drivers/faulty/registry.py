"""Drivers that get small rows wrong: versions, expiry, writes that come with an ack."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.drivers.memory.registry import RegistryTable
from holdfast.drivers.memory.space import Space
from holdfast.errors import LeaseError, WriteRefused
from holdfast.model import transition
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Ack, Settlement
from holdfast.testing.drivers.faulty.faulty_driver import BentSpace, Faulty
from holdfast.testing.drivers.faulty.leases import GAP


def _with_registry(table: type[RegistryTable]) -> type[BentSpace]:
    class WithRegistry(BentSpace):
        def __init__(self, driver: Faulty) -> None:
            super().__init__(driver)
            self.registry = table(self.counter)

    return WithRegistry


class _ComparesNothing(RegistryTable):
    def find_conflict(self, changes: Sequence[Change], now: int) -> Change | None:
        del changes, now
        return None


class RegistryLosesUpdates(Faulty):
    """Versions are not compared."""

    rows = _with_registry(_ComparesNothing)


class RegistryRaces(Faulty):
    """Comparing and setting are two steps: a write that comes between them is lost."""

    def write(self, changes: Sequence[Change], *, now: int | None = None) -> list[Entry | None]:
        """Compare, pause, set."""
        if len(changes) != 1:
            return super().write(changes, now=now)
        with self._lock:
            lost = self._open_space().registry.find_conflict(changes, self._validation.now(now))
        time.sleep(GAP)
        return [None] if lost else super().write([replace(changes[0], version=None)], now=now)


class _IgnoresTtl(RegistryTable):
    def read(self, kind: str, key: str, now: int) -> Entry | None:
        del now
        return self.entries.get((kind, key))


class RegistryIgnoresTtl(Faulty):
    """A row is there until it is trimmed."""

    rows = _with_registry(_IgnoresTtl)


class _RestartsVersions(RegistryTable):
    def apply(self, change: Change, now: int) -> Entry:
        old = self.entries.get((change.kind, change.key))
        entry = super().apply(change, now)
        if change.value is None:
            return entry
        entry = replace(entry, version=1 if old is None else old.version + 1)
        self.entries[change.kind, change.key] = entry
        return entry


class RegistryVersionsRestart(Faulty):
    """A row that was removed starts again with version 1."""

    rows = _with_registry(_RestartsVersions)


class RegistryMixesKinds(Faulty):
    """A scan finds the rows of every kind."""

    def scan(self, kind: str, **options: Any) -> list[Entry]:
        """The rows of all kinds."""
        kinds = sorted({kind, *(of for of, _ in self._space.registry.entries)})
        return [entry for of in kinds for entry in super(RegistryMixesKinds, self).scan(of, **options)]


class WritesForTheStale(Faulty):
    """The writes of an ack are made though the ack is refused."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        answer = super()._settle(space, settlement, now)
        if answer is not None and isinstance(settlement, Ack):
            for change in settlement.writes:
                space.registry.apply(change, now)
        return answer


class WritesHalf(Faulty):
    """The writes before the refused one are made."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        answer = super()._settle(space, settlement, now)
        if isinstance(answer, WriteRefused) and isinstance(settlement, Ack):
            for change in settlement.writes:
                if space.registry.find_conflict((change,), now) is not None:
                    break
                space.registry.apply(change, now)
        return answer


class WritesAgain(Faulty):
    """A repeated ack makes its writes again."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if isinstance(settlement, Ack) and row is not None and transition.is_repeat(row.held, settlement):
            for change in settlement.writes:
                space.registry.apply(change, now)
        return super()._settle(space, settlement, now)


class AcksThoughWritesAreRefused(Faulty):
    """A refused write does not refuse its ack."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        answer = super()._settle(space, settlement, now)
        if isinstance(answer, WriteRefused) and isinstance(settlement, Ack):
            return super()._settle(space, replace(settlement, writes=()), now)
        return answer


FAULTY: tuple[type[Faulty], ...] = (
    RegistryLosesUpdates,
    RegistryRaces,
    RegistryIgnoresTtl,
    RegistryVersionsRestart,
    RegistryMixesKinds,
    WritesForTheStale,
    WritesHalf,
    WritesAgain,
    AcksThoughWritesAreRefused,
)
