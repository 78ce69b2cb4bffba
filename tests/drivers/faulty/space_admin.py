"""Faulty drivers: listing and removing spaces."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.drivers import requests as r
from holdfast.drivers.answers import Page, SpaceRemoval
from holdfast.drivers.memory import spaces
from holdfast.model import bounds
from tests.drivers.faulty.faulty_driver import FaultyDriver


class OnlySpacesWithJobsAreListed(FaultyDriver):
    """A space that has only settings or registry entries is not listed."""

    def spaces(self, request: r.Spaces) -> Page[str]:
        """Leave out spaces without jobs."""
        page = super().spaces(request)
        return Page([name for name in page if self._store.spaces[name].rows], page.cursor)


class SpacePagesSkipName(FaultyDriver):
    """A page of spaces begins one name too late."""

    def spaces(self, request: r.Spaces) -> Page[str]:
        """Skip the first name of every page but the first."""
        page = super().spaces(request)
        return Page(page.items[1:], page.cursor) if request.after else page


class AllLeasesCountAsExpired(FaultyDriver):
    """Every space with leases is listed as one with expired leases."""

    def spaces(self, request: r.Spaces) -> Page[str]:
        """List spaces with any lease."""
        if not request.has_expired_leases:
            return super().spaces(request)
        leased = [name for name, space in self._store.spaces.items() if any(space.leases.values())]
        names, limit = sorted(name for name in leased if name > request.after), request.limit
        return Page(names[:limit], names[limit - 1] if len(names) > limit else None)


class RemovalLeavesTheLedger(FaultyDriver):
    """The ledger of a removed space stays."""

    def remove_space(self, request: r.RemoveSpace) -> SpaceRemoval:
        """Put the rows of the ledger back."""
        ledger = self._store.spaces[request.name].ledger
        rows = list(ledger.rows)
        removal = super().remove_space(request)
        ledger.trimmed, ledger.rows = ledger.trimmed - len(rows), rows
        return removal


class RemovalRestartsTheCounter(FaultyDriver):
    """The fences of a space that was removed begin again at 1."""

    def remove_space(self, request: r.RemoveSpace) -> SpaceRemoval:
        """Reset the counter."""
        removal = super().remove_space(request)
        self._store.spaces[request.name].counter.last = 0
        return removal


class RemovalIgnoresLeases(FaultyDriver):
    """A space is removed although its workers are at work."""

    def remove_space(self, request: r.RemoveSpace) -> SpaceRemoval:
        """Force every removal."""
        return super().remove_space(replace(request, force=True))


class RemovalIgnoresItsLimit(FaultyDriver):
    """A removal takes everything in one step."""

    def remove_space(self, request: r.RemoveSpace) -> SpaceRemoval:
        """Remove without a limit."""
        return super().remove_space(replace(request, limit=max(request.limit, bounds.MAX_BATCH_ITEMS)))


class RemovalTakesAllSpaces(FaultyDriver):
    """Removing one space removes the others, too."""

    def remove_space(self, request: r.RemoveSpace) -> SpaceRemoval:
        """Remove every space that has no lease."""
        removal = super().remove_space(request)
        for each, space in list(self._store.spaces.items()):
            spaces.remove(space, each, limit=request.limit, force=True)
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
