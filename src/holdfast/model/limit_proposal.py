"""Limits that settings and handlers propose for a queue.

An operator's limits win over those of the settings, and these over those of a handler: see ``QueueSettings.accepts``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from holdfast.model import duration
from holdfast.model.queue_settings import LIMIT_FIELDS, LimitOrigin, QueueSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """The limits among the settings of a queue. Only a whole queue has limits that begin with ``key_``."""

    max_inflight: int | None = None
    rate: float | None = None  # reservations per second
    burst: int | None = None
    key_max_inflight: int | None = None
    key_rate: float | None = None
    key_burst: int | None = None

    def __post_init__(self) -> None:
        """Raise ``InvalidInput`` for limits that settings refuse."""
        self.as_settings()

    def as_settings(self) -> QueueSettings:
        """Return settings that have these limits."""
        return QueueSettings(**asdict(self))

    @classmethod
    def of(cls, settings: QueueSettings) -> QueueLimits:
        """Return the limits of these settings."""
        return cls(**{name: getattr(settings, name) for name in LIMIT_FIELDS})


NO_LIMITS = QueueLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitProposal:
    """Limits for a queue, or for one type in it, and where they come from."""

    queue: str
    type: str | None = None
    limits: QueueLimits
    origin: LimitOrigin

    def as_settings(self) -> QueueSettings:
        """Return settings that have these limits and their origin."""
        return replace(self.limits.as_settings(), limits_from=self.origin)


def parse_rate(field: str, rate: str | float | None) -> float | None:
    """Return reservations per second from a text such as ``100/s``, or from a number."""
    return duration.parse_rate(field, rate) if isinstance(rate, str) else rate
