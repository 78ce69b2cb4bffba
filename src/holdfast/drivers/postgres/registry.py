"""The registry: reads are queries, writes are one call of a function."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.drivers.packing import end_of_prefix, read_entry
from holdfast.drivers.postgres.arrays import Array, pack_bigints, pack_blobs, pack_texts
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.requests import Scan, Write
from holdfast.model.registry import Change, Entry


def read(database: Database, kind: str, keys: Sequence[str], caller_now: int | None) -> list[Entry | None]:
    """Return the entries under these keys, in order; None where there is none or it has expired."""
    rows = database.query("registry/read", {"kind": kind, "keys": list(keys), "now": caller_now})
    entries = {row[0]: read_entry(row) for row in rows}
    return [entries.get(key) for key in keys]


def write(database: Database, request: Write) -> list[Entry | None]:
    """Make the changes in order, each only if the entry has the expected version, or all or none.

    Not repeated when the reply is lost: the versions would differ the second time.
    """
    changes = request.changes
    arguments = (request.now, *pack_changes(changes), request.together)
    rows = database.call("write_registry", *arguments, is_repeatable=False)
    return [
        None if version is None else read_entry((one.key, one.value, version, expires_at))
        for one, (version, expires_at) in zip(changes, rows, strict=True)
    ]


def pack_changes(changes: Sequence[Change]) -> list[Array | None]:
    """Return the arrays of ``write_registry`` and ``enqueue_with_writes``."""
    return [
        pack_texts([change.kind for change in changes]),
        pack_texts([change.key for change in changes]),
        pack_blobs([change.value for change in changes]),
        pack_bigints([change.version for change in changes]),
        pack_bigints([change.ttl for change in changes]),
    ]


def scan(database: Database, request: Scan) -> list[Entry]:
    """Return a page of entries: a range of the primary key."""
    parameters = {
        "kind": request.kind,
        "start": request.prefix,
        "stop": end_of_prefix(request.prefix),
        "after": request.after,
        "now": request.now,
        "limit": request.limit,
    }
    return [read_entry(row) for row in database.query("registry/scan", parameters)]
