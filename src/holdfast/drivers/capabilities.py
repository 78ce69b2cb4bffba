"""What a driver supports: its features and its durability (L14, L15)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from holdfast.errors import Unsupported

__all__ = ["Capabilities", "Durability", "Feature"]


class Durability(IntEnum):
    """What the effect of a call survives once the call has returned (L15)."""

    MEMORY = 0  # nothing: it ends with the process
    PROCESS = 1  # a crash of the process, but not a power cut
    FSYNC = 2  # a power cut


class Feature(StrEnum):
    """A part of the contract that a driver may not support (L14)."""

    TYPES = "reserving by type"
    PRIORITIES = "priorities"
    SCHEDULING = "run_at and delays"
    DOMAINS = "domains in order of arrival"
    OFFSETS = "domains in order of explicit offsets"
    HALT = "halting a domain on exhaustion"
    GAPS = "domains that wait for missing offsets"
    LIMITS = "pause, concurrency and rate limits"
    KEY_LIMITS = "limits by a key of the job"
    IDEMPOTENCY = "idempotency keys"
    LEDGER = "the ledger"
    REGISTRY = "the registry"
    ENQUEUE_WRITES = "registry writes with an enqueue"
    SPACES = "spaces"
    NOTES = "progress and checkpoints"
    CALLER_CLOCK = "a caller's clock"
    JOINED = "enqueue in the caller's transaction"
    PROCESSES = "use by several processes at once"
    MACHINES = "use by several machines at once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a driver supports. ``gaps`` has the features that it does not support, each with the reason.

    A call that needs a missing feature raises ``Unsupported``.
    """

    driver: str
    durability: Durability
    gaps: Mapping[Feature, str] = field(default_factory=dict)

    def has(self, feature: Feature) -> bool:
        """Whether the driver supports the feature."""
        return feature not in self.gaps

    def require(self, feature: Feature) -> None:
        """Raise ``Unsupported`` if the driver does not support the feature (L14)."""
        if feature in self.gaps:
            raise Unsupported(self.driver, feature, self.gaps[feature])
