"""The spaces of a database: listing them, and removing one."""

from __future__ import annotations

from holdfast.drivers.answers import Page, SpaceRemoval
from holdfast.drivers.postgres.database import Database
from holdfast.errors import SpaceInUse


def list_spaces(database: Database, *, after: str, limit: int) -> Page[str]:
    """Return a page of the names of the spaces that have rows, in order."""
    names = [name for (name,) in database.call_store("list_spaces", after, limit + 1)]
    return Page(names[:limit], names[limit - 1] if len(names) > limit else None)


def list_expired(database: Database, caller_now: int | None, *, after: str, limit: int) -> Page[str]:
    """Return a page of the names of the spaces that have expired leases, in order."""
    [(names, cursor)] = database.call_store("list_expired_spaces", after, limit, caller_now)
    return Page(list(names), cursor)


def remove(database: Database, *, limit: int, force: bool) -> SpaceRemoval:
    """Remove up to ``limit`` rows of the space of this database."""
    [(removed, more, leases)] = database.call("remove_space", force, limit)
    if leases:
        raise SpaceInUse(database.space, leases=leases)
    return SpaceRemoval(rows=removed, more=more)
