"""Registry rows: read, compare, change, inside a call."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.drivers.sqlite.call import Call
from holdfast.model.registry import Change, Entry


def current(call: Call, kind: str, key: str) -> Entry | None:
    """The row as it stands, unless it has expired."""
    asked = {"space": call.space, "kind": kind, "key": key, "now": call.now}
    row = call.run("registry_read", asked).fetchone()
    return None if row is None else entry(row)


def entry(row: tuple[str, bytes, int, int | None]) -> Entry:
    """From the columns key, value, version, expires_at."""
    key, value, version, expires_at = row
    return Entry(key=key, value=value, version=version, expires_at=expires_at)


def conflict(call: Call, changes: Sequence[Change]) -> Change | None:
    """The first change whose expected version is not the current one."""
    for change in changes:
        if change.version is not None:
            found = current(call, change.kind, change.key)
            if change.version != (0 if found is None else found.version):
                return change
    return None


def change(call: Call, change: Change) -> Entry:
    """Make a change that has no conflict. Versions come from the space's counter, so none is ever used twice."""
    if change.value is None:
        call.run("registry_remove", (call.space, change.kind, change.key))
        return Entry(key=change.key, value=None, version=0)
    made = Entry(
        key=change.key,
        value=change.value,
        version=call.numbers(1),
        expires_at=None if change.ttl is None else call.now + change.ttl,
    )
    call.run("registry_write", (call.space, change.kind, made.key, made.value, made.version, made.expires_at))
    return made


def write(call: Call, changes: Sequence[Change]) -> list[Entry | None]:
    """See ``Registry.write``."""
    return [change(call, one) if conflict(call, (one,)) is None else None for one in changes]


def scan(call: Call, kind: str, prefix: str, after: str, limit: int) -> list[Entry]:
    """See ``Registry.scan``: a range of the primary key, from the prefix to the first key that cannot have it."""
    asked = {
        "space": call.space,
        "kind": kind,
        "start": prefix,
        "stop": prefix + chr(0x10FFFF) if prefix else None,
        "after": after,
        "now": call.now,
        "limit": limit,
    }
    return [entry(row) for row in call.run("registry_scan", asked)]
