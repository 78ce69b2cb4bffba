"""The spaces of a database: listing them, and removing one."""

from __future__ import annotations

from holdfast.drivers.answers import Page, SpaceRemoval
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.requests import Spaces
from holdfast.errors import SpaceInUse


def list_spaces(database: Database, request: Spaces) -> Page[str]:
    """Return a page of the names of the spaces that have rows, or expired leases, in order."""
    if request.has_expired_leases:
        [(names, cursor)] = database.call_store("list_expired_spaces", request.after, request.limit, request.now)
        return Page(names, cursor)
    names = [name for (name,) in database.call_store("list_spaces", request.after, request.limit + 1)]
    return Page(names[: request.limit], names[request.limit - 1] if len(names) > request.limit else None)


def remove(database: Database, *, limit: int, force: bool) -> SpaceRemoval:
    """Remove up to ``limit`` rows of the space of this database."""
    [(removed, more, leases)] = database.call("remove_space", force, limit)
    if leases:
        raise SpaceInUse(database.space, leases=leases)
    return SpaceRemoval(rows=removed, more=more)
