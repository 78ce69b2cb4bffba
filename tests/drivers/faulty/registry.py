"""Faulty drivers: the registry and the writes of an ack."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs
from msgspec.structs import replace

from holdfast.drivers import requests as r
from holdfast.drivers.memory.registry import RegistryTable
from holdfast.drivers.memory.space import Space
from holdfast.errors import LeaseError, WriteRefused
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Ack, Settlement
from holdfast.model.transition import is_repeat
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace


def _space_with_registry(table: type[RegistryTable]) -> type[FaultySpace]:
    class SpaceWithRegistry(FaultySpace):
        def __init__(self, driver: FaultyDriver) -> None:
            super().__init__(driver)
            self.registry = table(self.counter)

    return SpaceWithRegistry


class _VersionsIgnoredTable(RegistryTable):
    def find_conflict(self, changes: Sequence[Change], now: int) -> Change | None:
        del changes, now
        return None


class VersionsIgnored(FaultyDriver):
    """Versions are not compared."""

    space_type = _space_with_registry(_VersionsIgnoredTable)


class ExpiredRowIsNotRemoved(FaultyDriver):
    """A removal that expects no row is refused while an expired row is stored."""

    def write(self, request: r.Write) -> list[Entry | None]:
        """Refuse to remove rows that a read does not show."""
        now, registry = self._now(request), self._space.registry
        absent = [registry.read(change.kind, change.key, now) is None for change in request.changes]
        return [
            None if was_absent and change.value is None and change.version == 0 else answer
            for change, answer, was_absent in zip(request.changes, super().write(request), absent, strict=True)
        ]


class WritesAPartTogether(FaultyDriver):
    """Of changes that are made together, those whose versions do not differ are made."""

    def write(self, request: r.Write) -> list[Entry | None]:
        """Make them one by one."""
        return super().write(structs.replace(request, together=False))


class AnswersAPartTogether(FaultyDriver):
    """Changes that were not made, because the version of another one differed, are answered as if they were made."""

    def write(self, request: r.Write) -> list[Entry | None]:
        """Answer with the entries that would have been written."""
        answers, now = super().write(request), self._now(request)
        if not request.together:
            return answers
        return [
            Entry(key=change.key, value=change.value, version=1)
            if answer is None and self._space.registry.find_conflict((change,), now) is None
            else answer
            for change, answer in zip(request.changes, answers, strict=True)
        ]


class ReadsOneByOne(FaultyDriver):
    """A read of several entries sees a part of a write."""

    def read(self, request: r.Read) -> list[Entry | None]:
        """Read each entry in a call of its own."""
        entries: list[Entry | None] = []
        for key in request.keys:
            entries += super().read(structs.replace(request, keys=[key]))
            self.let_others_in()
        return entries


class WriteIsNotAtomic(FaultyDriver):
    """A write compares and sets in two steps: a concurrent write is lost."""

    def write(self, request: r.Write) -> list[Entry | None]:
        """Compare, wait, set."""
        if len(request.changes) != 1:
            return super().write(request)
        conflict = self._space.registry.find_conflict(request.changes, self._now(request))
        self.let_others_in()
        change = replace(request.changes[0], version=None)
        return [None] if conflict else super().write(structs.replace(request, changes=[change]))


class _TtlIgnoredTable(RegistryTable):
    def read(self, kind: str, key: str, now: int) -> Entry | None:
        del now
        return self.entries.get((kind, key))


class TtlIgnored(FaultyDriver):
    """An expired row is visible until it is trimmed."""

    space_type = _space_with_registry(_TtlIgnoredTable)


class _VersionsRestartTable(RegistryTable):
    def apply(self, change: Change, now: int) -> Entry:
        old = self.entries.get((change.kind, change.key))
        entry = super().apply(change, now)
        if change.value is None:
            return entry
        entry = replace(entry, version=1 if old is None else old.version + 1)
        self.entries[change.kind, change.key] = entry
        return entry


class VersionsRestart(FaultyDriver):
    """The versions of a removed row start again at 1."""

    space_type = _space_with_registry(_VersionsRestartTable)


class ScanIgnoresKind(FaultyDriver):
    """A scan returns the rows of every kind."""

    def scan(self, request: r.Scan) -> list[Entry]:
        """Return the rows of all kinds."""
        kinds = sorted({request.kind, *(other for other, _ in self._space.registry.entries)})
        pages = [super(ScanIgnoresKind, self).scan(structs.replace(request, kind=kind)) for kind in kinds]
        return [entry for page in pages for entry in page]


class RefusedAckWrites(FaultyDriver):
    """The writes of a refused ack are applied."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        answer = super()._settle(space, settlement, now)
        if answer is not None and isinstance(settlement, Ack):
            for change in settlement.writes:
                space.registry.apply(change, now)
        return answer


class RefusedAckWritesInPart(FaultyDriver):
    """The writes before the refused write are applied."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        answer = super()._settle(space, settlement, now)
        if isinstance(answer, WriteRefused) and isinstance(settlement, Ack):
            for change in settlement.writes:
                if space.registry.find_conflict((change,), now) is not None:
                    break
                space.registry.apply(change, now)
        return answer


class RepeatedAckWritesAgain(FaultyDriver):
    """A repeated ack applies its writes again."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if isinstance(settlement, Ack) and row is not None and is_repeat(row.held, settlement):
            for change in settlement.writes:
                space.registry.apply(change, now)
        return super()._settle(space, settlement, now)


class AckIgnoresRefusedWrite(FaultyDriver):
    """An ack is accepted although one of its writes was refused."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        answer = super()._settle(space, settlement, now)
        if isinstance(answer, WriteRefused) and isinstance(settlement, Ack):
            return super()._settle(space, replace(settlement, writes=()), now)
        return answer


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    VersionsIgnored,
    ExpiredRowIsNotRemoved,
    WritesAPartTogether,
    AnswersAPartTogether,
    ReadsOneByOne,
    WriteIsNotAtomic,
    TtlIgnored,
    VersionsRestart,
    ScanIgnoresKind,
    RefusedAckWrites,
    RefusedAckWritesInPart,
    RepeatedAckWritesAgain,
    AckIgnoresRefusedWrite,
)
