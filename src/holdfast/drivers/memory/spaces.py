"""The spaces of a store: listing them, and removing one."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from itertools import islice
from typing import Any

from holdfast.drivers.answers import Page, SpaceRemoval
from holdfast.drivers.memory.space import Space
from holdfast.errors import SpaceInUse


def list_spaces(
    spaces: Mapping[str, Space], *, after: str, limit: int, now: int, has_expired_leases: bool
) -> Page[str]:
    """Return a page of the names of the spaces that have rows, in order."""
    names = sorted(
        name
        for name, space in spaces.items()
        if name > after and (space.expired([*space.leases], now) if has_expired_leases else _is_used(space))
    )
    return Page(names[:limit], names[limit - 1] if len(names) > limit else None)


def _is_used(space: Space) -> bool:
    return bool(space.rows or space.ledger.rows) or any(_tables(space))


def _tables(space: Space) -> tuple[MutableMapping[Any, Any], ...]:
    """Return the tables without indexes over them."""
    return space.keys, space.settings, space.buckets, space.limit_keys, space.registry.entries


def remove(space: Space, name: str, *, limit: int, force: bool) -> SpaceRemoval:
    """Remove up to ``limit`` rows of a space. The counters stay, so that no number is used twice."""
    leases = sum(len(positions) for positions in space.leases.values())
    if leases and not force:
        raise SpaceInUse(name, leases=leases)
    rows = list(islice(space.rows.values(), limit))
    for row in rows:
        space.discard(row)
    removed = len(rows)
    for table in _tables(space):
        keys = list(islice(table, limit - removed))
        for key in keys:
            del table[key]
        removed += len(keys)
    removed += space.ledger.remove(limit - removed)
    is_left = _is_used(space)
    if not is_left:
        space.clear()
    return SpaceRemoval(rows=removed, more=is_left)
