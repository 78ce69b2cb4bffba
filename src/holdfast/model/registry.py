"""Entries of the registry: small versioned values that are not jobs, such as guards, locks, schedules and cursors."""

from __future__ import annotations

import msgspec

from holdfast.model import bounds


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A stored entry. The answer to a successful removal has ``value=None, version=0``."""

    key: str
    value: bytes | None
    version: int
    expires_at: int | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One write, made only if the entry still has ``version``.

    ``version=0`` requires that there is no entry, or that it has expired; ``None`` accepts any entry. ``value=None``
    removes the entry. ``ttl`` is a duration: the store adds it to its own clock.
    """

    kind: str
    key: str
    value: bytes | None
    version: int | None = None
    ttl: int | None = None

    def __post_init__(self) -> None:
        """Check every value before the change enters a transaction."""
        bounds.check_name("kind", self.kind)
        bounds.check_text("key", self.key)
        if self.value is not None:
            bounds.check_blob("value", self.value, most=bounds.MAX_NOTE_BYTES)
        if self.version is not None:
            bounds.check_integer("version", self.version, most=2**63 - 1)
        if self.ttl is not None:
            bounds.check_integer("ttl", self.ttl, least=1, most=bounds.MAX_DURATION)
