"""Fence your own writes: refuse a write of an attempt that a later attempt has replaced.

A paused process can go on after its lease has ended, while the next attempt runs. Every lease has a larger ``fence``
than all earlier ones of its space (``ctx.fence``). Store it beside what you write, and let the system that you write to
compare: ``UPDATE ... WHERE fence < :fence`` in a database, a conditional put in an object store.

This module is part of the public API. It knows no database and no object store: you make the calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from holdfast.clock import monotonic
from holdfast.errors import StaleFence, StoreBusy

__all__ = ["StaleFence", "Version", "put_fenced", "require_written"]

MAX_PUT_TRIES = 100  # each failed try is a put of another writer


class Version(NamedTuple):
    """An object as it is stored now: the fence of its last writer, and the ETag that a conditional put names."""

    fence: int
    etag: str


def require_written(rows: int, target: str, *, fence: int) -> None:
    """Raise ``StaleFence`` unless a fenced statement has changed a row; ``rows`` is the ``rowcount`` of its cursor.

    ``UPDATE accounts SET balance = ..., fence = :fence WHERE id = 7 AND fence < :fence`` changes no row if a later
    attempt has written it. Raise inside your transaction, so that its other statements are rolled back, too.
    """
    if rows < 1:
        raise StaleFence(target, fence=fence)


def put_fenced(
    read: Callable[[], Version | None], put: Callable[[str | None], bool], target: str, *, fence: int
) -> None:
    """Replace an object, unless a later attempt has written it; raises ``StaleFence`` then.

    ``read()`` returns the stored version, None for an object that does not exist. ``put(etag)`` stores the object with
    this fence if it still has this ETag (``If-Match``), or for None if there is none (``If-None-Match: *``), and
    returns False if the condition failed (412, or 409 of a put at the same time). Then the object is read again.

    A put whose answer was lost can be repeated with the same fence. The ETag must change with the fence: where it
    depends on the bytes alone, as on S3, keep the fence in the object, not in its metadata.
    """
    started = monotonic()
    for _ in range(MAX_PUT_TRIES):
        stored = read()
        if stored is not None and stored.fence > fence:
            raise StaleFence(target, fence=fence, stored=stored.fence)
        if put(None if stored is None else stored.etag):
            return
    raise StoreBusy(monotonic() - started)
