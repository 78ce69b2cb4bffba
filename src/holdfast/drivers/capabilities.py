"""What an engine offers: groups of requests, fields, facts about the store, and its durability (L14, L15)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import Unsupported

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["FACTS", "FIELDS", "GROUPS", "Capabilities", "Durability", "Feature", "Needs"]


class Durability(IntEnum):
    """What the effect of a call survives once the call has returned (L15)."""

    MEMORY = 0  # nothing: it ends with the process
    PROCESS = 1  # a crash of the process, but not a power cut
    FSYNC = 2  # a power cut


class Feature(StrEnum):
    """A part of the contract that an engine may lack (L14): a group of requests, a field, or a fact."""

    # Groups. An engine has all requests of a group or none. The core is in no group: every engine has it.
    JOBS = "finding, counting, requeueing, cancelling and removing jobs"
    LEDGER = "the ledger"
    REGISTRY = "the registry"
    LIMITS = "pause, concurrency and rate limits"
    DOMAINS = "listing, halting and resuming domains"
    SPACES = "several spaces"

    # Fields of jobs, settlements and requests. An engine keeps the values of a field, or none is accepted.
    PRIORITY = "priorities"
    TYPES = "reserving by type"
    SCHEDULE = "run_at and delays"
    KEY = "idempotency keys"
    DOMAIN = "domains"
    OFFSET = "offsets in domains"
    LIMIT_KEY = "limit keys"
    RESULT = "results"
    NOTES = "notes of running attempts, and prefetching"
    WRITES = "registry writes with an enqueue or an ack"

    # Facts about the store.
    JOINED = "enqueue in the caller's transaction"
    CALLER_CLOCK = "a caller's clock"
    PROCESSES = "use by several processes at once"
    MACHINES = "use by several machines at once"


GROUPS = (Feature.JOBS, Feature.LEDGER, Feature.REGISTRY, Feature.LIMITS, Feature.DOMAINS, Feature.SPACES)
FACTS = (Feature.JOINED, Feature.CALLER_CLOCK, Feature.PROCESSES, Feature.MACHINES)
FIELDS = tuple(feature for feature in Feature if feature not in {*GROUPS, *FACTS})

Needs = Mapping[str, tuple[Feature, ...]]
"""By the name of a field: what an engine must have to keep a value other than the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an engine offers. ``gaps`` has the features that it lacks, each with the reason.

    A request that needs a missing feature raises ``Unsupported``. ``lost`` has the missing groups and fields: nothing
    has to be compared where it is empty.
    """

    driver: str
    durability: Durability
    gaps: Mapping[Feature, str] = field(default_factory=dict)
    lost: frozenset[Feature] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Tell the missing groups and fields from the facts."""
        object.__setattr__(self, "lost", frozenset(self.gaps).difference(FACTS))

    def has(self, feature: Feature) -> bool:
        """Whether the engine has the feature."""
        return feature not in self.gaps

    def require(self, feature: Feature) -> None:
        """Raise ``Unsupported`` if the engine lacks the feature (L14)."""
        if feature in self.gaps:
            raise Unsupported(self.driver, feature, self.gaps[feature])

    def require_for(self, value: msgspec.Struct | DataclassInstance, needs: Needs) -> None:
        """Raise ``Unsupported`` if the value has a field that the engine would lose."""
        for name, features in needs.items():
            if not self.lost.isdisjoint(features) and is_given(value, name):
                for feature in features:
                    self.require(feature)


def is_given(value: msgspec.Struct | DataclassInstance, name: str) -> bool:
    """Whether a field has another value than its default. An empty list or mapping is no value."""
    given = getattr(value, name)
    return given != _defaults(type(value))[name] and not (isinstance(given, Sized) and not len(given))


@cache
def _defaults(type_: type[Any]) -> dict[str, object]:
    fields = msgspec.structs.fields if issubclass(type_, msgspec.Struct) else dataclasses.fields
    return {one.name: one.default for one in fields(type_)}
