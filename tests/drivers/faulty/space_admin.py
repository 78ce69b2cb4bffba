"""Faulty drivers: listing and removing spaces."""

from __future__ import annotations

from holdfast.drivers.contract import Page
from holdfast.drivers.memory import spaces
from holdfast.drivers.optional import SpaceRemoval
from holdfast.model import bounds
from tests.drivers.faulty.faulty_driver import FaultyDriver


class OnlySpacesWithJobsAreListed(FaultyDriver):
    """A space that has only settings or registry entries is not listed."""

    def spaces(
        self, *, after: str = "", limit: int = 100, has_expired_leases: bool = False, now: int | None = None
    ) -> Page[str]:
        """Leave out spaces without jobs."""
        page = super().spaces(after=after, limit=limit, has_expired_leases=has_expired_leases, now=now)
        return Page([name for name in page if self._store.spaces[name].rows], page.cursor)


class SpacePagesSkipName(FaultyDriver):
    """A page of spaces begins one name too late."""

    def spaces(
        self, *, after: str = "", limit: int = 100, has_expired_leases: bool = False, now: int | None = None
    ) -> Page[str]:
        """Skip the first name of every page but the first."""
        page = super().spaces(after=after, limit=limit, has_expired_leases=has_expired_leases, now=now)
        return Page(page.items[1:], page.cursor) if after else page


class AllLeasesCountAsExpired(FaultyDriver):
    """Every space with leases is listed as one with expired leases."""

    def spaces(
        self, *, after: str = "", limit: int = 100, has_expired_leases: bool = False, now: int | None = None
    ) -> Page[str]:
        """List spaces with any lease."""
        if not has_expired_leases:
            return super().spaces(after=after, limit=limit, now=now)
        names = sorted(
            name for name, space in self._store.spaces.items() if name > after and any(space.leases.values())
        )
        return Page(names[:limit], names[limit - 1] if len(names) > limit else None)


class RemovalLeavesTheLedger(FaultyDriver):
    """The ledger of a removed space stays."""

    def remove_space(
        self, name: str, *, force: bool = False, limit: int = bounds.MAX_BATCH_ITEMS, now: int | None = None
    ) -> SpaceRemoval:
        """Put the rows of the ledger back."""
        ledger = self._store.spaces[name].ledger
        rows = list(ledger.rows)
        removal = super().remove_space(name, force=force, limit=limit, now=now)
        ledger.trimmed, ledger.rows = ledger.trimmed - len(rows), rows
        return removal


class RemovalRestartsTheCounter(FaultyDriver):
    """The fences of a space that was removed begin again at 1."""

    def remove_space(
        self, name: str, *, force: bool = False, limit: int = bounds.MAX_BATCH_ITEMS, now: int | None = None
    ) -> SpaceRemoval:
        """Reset the counter."""
        removal = super().remove_space(name, force=force, limit=limit, now=now)
        self._store.spaces[name].counter.last = 0
        return removal


class RemovalIgnoresLeases(FaultyDriver):
    """A space is removed although its workers are at work."""

    def remove_space(
        self, name: str, *, force: bool = False, limit: int = bounds.MAX_BATCH_ITEMS, now: int | None = None
    ) -> SpaceRemoval:
        """Force every removal."""
        del force
        return super().remove_space(name, force=True, limit=limit, now=now)


class RemovalIgnoresItsLimit(FaultyDriver):
    """A removal takes everything in one step."""

    def remove_space(
        self, name: str, *, force: bool = False, limit: int = bounds.MAX_BATCH_ITEMS, now: int | None = None
    ) -> SpaceRemoval:
        """Remove without a limit."""
        return super().remove_space(name, force=force, limit=max(limit, bounds.MAX_BATCH_ITEMS), now=now)


class RemovalTakesAllSpaces(FaultyDriver):
    """Removing one space removes the others, too."""

    def remove_space(
        self, name: str, *, force: bool = False, limit: int = bounds.MAX_BATCH_ITEMS, now: int | None = None
    ) -> SpaceRemoval:
        """Remove every space that has no lease."""
        removal = super().remove_space(name, force=force, limit=limit, now=now)
        for each, space in list(self._store.spaces.items()):
            spaces.remove(space, each, limit=limit, force=True)
        return removal


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    OnlySpacesWithJobsAreListed,
    SpacePagesSkipName,
    AllLeasesCountAsExpired,
    RemovalLeavesTheLedger,
    RemovalRestartsTheCounter,
    RemovalIgnoresLeases,
    RemovalIgnoresItsLimit,
    RemovalTakesAllSpaces,
)
