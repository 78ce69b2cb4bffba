"""The registry: read the versions of a batch, compare, change. A few statements for a batch of any size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.drivers.packing import Row, end_of_prefix, read_entry, split_repeated_entries, to_json
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.errors import WriteRefused
from holdfast.model.registry import Change, Entry

Versions = Mapping[tuple[str, str], int]  # of entries that have not expired, by kind and key


def read(tx: Transaction, kind: str, key: str) -> Entry | None:
    """Return an entry that has not expired."""
    parameters = {"space": tx.space, "kind": kind, "key": key, "now": tx.now}
    row = tx.run("registry/read", parameters).fetchone()
    return None if row is None else read_entry(row)


def find_versions(tx: Transaction, changes: Iterable[Change]) -> Versions:
    """Return the versions of the entries whose version a change expects."""
    expecting = [(change.kind, change.key) for change in changes if change.version is not None]
    if len(expecting) == 1:
        [(kind, key)] = expecting
        entry = read(tx, kind, key)
        return {} if entry is None else {(kind, key): entry.version}
    if not expecting:
        return {}
    rows = tx.run("registry/find_versions", {"space": tx.space, "entries": to_json(expecting), "now": tx.now})
    return {(kind, key): version for kind, key, version in rows}


def is_refused(change: Change, versions: Versions) -> bool:
    """Whether the expected version is not the current one."""
    return change.version is not None and change.version != versions.get((change.kind, change.key), 0)


def apply(tx: Transaction, changes: Sequence[Change]) -> list[Row]:
    """Make changes that are not refused, and of which each names another entry; return the rows that were written.

    Versions come from the counter of the space, so none is used twice.
    """
    space, now = tx.space, tx.now
    removed = [(space, change.kind, change.key) for change in changes if change.value is None]
    if removed:
        tx.run_many("registry/remove", removed)
    written = [change for change in changes if change.value is not None] if removed else changes
    if not written:
        return []
    first = tx.next_numbers(len(written))
    rows = [
        (space, change.kind, change.key, change.value, version, None if change.ttl is None else now + change.ttl)
        for version, change in enumerate(written, first)
    ]
    tx.run_many("registry/write", rows)
    return rows


def write_all(tx: Transaction, changes: Sequence[Change], *, job_id: str) -> WriteRefused | None:
    """Make all changes that belong to a job; make none, and return the refusal, if one has a conflict."""
    versions = find_versions(tx, changes)
    for change in changes:
        if is_refused(change, versions):
            return WriteRefused(job_id, kind=change.kind, key=change.key)
    apply(tx, changes)
    return None


def write(tx: Transaction, changes: Sequence[Change], *, together: bool) -> list[Entry | None]:
    """Make the changes in order, each only if the entry has the expected version; ``together``: all or none."""
    answers: list[Entry | None] = []
    for run in split_repeated_entries(changes):
        versions = find_versions(tx, run)
        made = [change for change in run if not is_refused(change, versions)]
        if together and len(made) < len(changes):
            return [None] * len(changes)
        entries = {(kind, row[0]): read_entry(row) for _, kind, *row in apply(tx, made)}
        entries |= {(one.kind, one.key): Entry(key=one.key, value=None, version=0) for one in made if one.value is None}
        answers += [entries.get((change.kind, change.key)) for change in run]
    return answers


def scan(tx: Transaction, kind: str, prefix: str, after: str, limit: int) -> list[Entry]:
    """Return the entries of a kind whose keys begin with ``prefix``, ordered by key, after the key ``after``.

    Reads a range of the primary key.
    """
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
