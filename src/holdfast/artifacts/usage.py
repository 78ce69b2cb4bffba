"""``SpaceUsage``: how many artifacts a space has, and how large they are. One entry of the registry.

The sum is raised before an artifact gets its row, and lowered after the row has gone. So a crash makes the sum too
large and never too small; the collector counts again.
"""

from __future__ import annotations

import msgspec

from holdfast.artifacts.quota import Quota
from holdfast.drivers.requests import Read, Write
from holdfast.drivers.store import Store
from holdfast.errors import StoreBusy
from holdfast.model.registry import Change, Entry

USAGE_KIND = "artifacts.usage"
USAGE_KEY = "space"
MAX_TRIES = 100  # of a compare-and-set that others keep winning


class Usage(msgspec.Struct, kw_only=True, frozen=True):
    """What a space has."""

    count: int = 0
    total_bytes: int = 0


def read_usage(registry: Store) -> tuple[Usage, int]:
    """Return the usage of the space, and the version of its entry."""
    [entry] = registry.do(Read(kind=USAGE_KIND, keys=[USAGE_KEY]))
    return _decode(entry), 0 if entry is None else entry.version


def change_usage(registry: Store, *, count: int, size: int, quota: Quota | None = None) -> None:
    """Add to the usage. Raises ``ArtifactQuota``, and changes nothing, if it would exceed the quota."""
    if not count and not size:
        return
    for _ in range(MAX_TRIES):
        usage, version = read_usage(registry)
        changed = Usage(count=max(0, usage.count + count), total_bytes=max(0, usage.total_bytes + size))
        if quota is not None:
            quota.check("space", count=changed.count, total_bytes=changed.total_bytes)
        if set_usage(registry, changed, version):
            return
    raise StoreBusy(0)


def set_usage(registry: Store, usage: Usage, version: int) -> bool:
    """Store the usage if nobody has changed it since ``version``; return whether it was stored."""
    value = msgspec.msgpack.encode(usage)
    [entry] = registry.do(Write(changes=[Change(kind=USAGE_KIND, key=USAGE_KEY, value=value, version=version)]))
    return entry is not None


def _decode(entry: Entry | None) -> Usage:
    return Usage() if entry is None else msgspec.msgpack.decode(entry.value or b"", type=Usage)
