"""Small versioned rows that are not jobs: guards, locks, schedules, cursors, presence."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.model import bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row as it is stored. A successful removal answers with ``value=None, version=0``."""

    key: str
    value: bytes | None
    version: int
    expires_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One write, made only if the row still has ``version``.

    ``version=0`` wants the row to be absent (or expired), ``None`` takes whatever is there. ``value=None`` removes the
    row. ``ttl`` is a length, not an instant: the store adds it to its own clock.
    """

    kind: str
    key: str
    value: bytes | None
    version: int | None = None
    ttl: int | None = None

    def __post_init__(self) -> None:
        """Refuse what does not fit, before it meets a transaction that others share."""
        bounds.name("kind", self.kind)
        bounds.text("key", self.key)
        if self.value is not None:
            bounds.blob("value", self.value, most=bounds.MAX_NOTE)
        if self.version is not None:
            bounds.integer("version", self.version, most=2**63 - 1)
        if self.ttl is not None:
            bounds.integer("ttl", self.ttl, least=1, most=bounds.MAX_LENGTH)
