"""What the domains of a queue do at a dead job and at a missing offset: a part of the settings of a queue."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from holdfast.model.queue_settings import Gaps, OnExhausted, QueueSettings

ORDER_FIELDS = ("on_exhausted", "gaps", "gap_report_after", "gap_pass_after")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOrder:
    """The fields of ``QueueSettings`` about domains."""

    on_exhausted: OnExhausted = OnExhausted.SKIP
    gaps: Gaps = Gaps.PASS
    gap_report_after: int | None = None  # microseconds
    gap_pass_after: int | None = None

    def __post_init__(self) -> None:
        """Raise ``InvalidInput`` for values that settings refuse."""
        self.as_settings()

    def as_settings(self) -> QueueSettings:
        """Return settings that have this order."""
        return QueueSettings(**asdict(self))

    @classmethod
    def of(cls, settings: QueueSettings) -> QueueOrder:
        """Return the order of these settings."""
        return cls(**{name: getattr(settings, name) for name in ORDER_FIELDS})


DEFAULT_ORDER = QueueOrder()
