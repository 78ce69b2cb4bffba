"""The registry: read, compare the version, change."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.drivers.packing import end_of_prefix, read_entry
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.errors import WriteRefused
from holdfast.model.registry import Change, Entry


def read(tx: Transaction, kind: str, key: str) -> Entry | None:
    """Return an entry that has not expired."""
    parameters = {"space": tx.space, "kind": kind, "key": key, "now": tx.now}
    row = tx.run("registry/read", parameters).fetchone()
    return None if row is None else read_entry(row)


def find_conflict(tx: Transaction, changes: Sequence[Change]) -> Change | None:
    """Return the first change whose expected version is not the current one."""
    for change in changes:
        if change.version is not None:
            entry = read(tx, change.kind, change.key)
            if change.version != (0 if entry is None else entry.version):
                return change
    return None


def apply(tx: Transaction, change: Change) -> Entry:
    """Make a change without a conflict. Versions come from the counter of the space, so none is used twice."""
    if change.value is None:
        tx.run("registry/remove", (tx.space, change.kind, change.key))
        return Entry(key=change.key, value=None, version=0)
    entry = Entry(
        key=change.key,
        value=change.value,
        version=tx.next_numbers(1),
        expires_at=None if change.ttl is None else tx.now + change.ttl,
    )
    tx.run("registry/write", (tx.space, change.kind, entry.key, entry.value, entry.version, entry.expires_at))
    return entry


def write_all(tx: Transaction, changes: Sequence[Change], *, job_id: str) -> WriteRefused | None:
    """Make all changes that belong to a job; make none, and return the refusal, if one has a conflict."""
    conflict = find_conflict(tx, changes)
    if conflict is not None:
        return WriteRefused(job_id, kind=conflict.kind, key=conflict.key)
    for change in changes:
        apply(tx, change)
    return None


def write(tx: Transaction, changes: Sequence[Change]) -> list[Entry | None]:
    """See ``Registry.write``."""
    return [apply(tx, change) if find_conflict(tx, (change,)) is None else None for change in changes]


def scan(tx: Transaction, kind: str, prefix: str, after: str, limit: int) -> list[Entry]:
    """See ``Registry.scan``. Reads a range of the primary key."""
    parameters = {
        "space": tx.space,
        "kind": kind,
        "start": prefix,
        "stop": end_of_prefix(prefix),
        "after": after,
        "now": tx.now,
        "limit": limit,
    }
    return [read_entry(row) for row in tx.run("registry/scan", parameters)]
