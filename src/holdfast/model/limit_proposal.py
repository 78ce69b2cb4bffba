"""Limits that settings and handlers propose for a queue, and who set the limits that a store has.

An operator's limits win over those of the settings, and these over those of a handler. The settings of a queue
(``QueueSettings``) have the limits in force; one entry of the registry beside them remembers who set them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from holdfast.errors import InvalidInput
from holdfast.model import duration
from holdfast.model.queue_settings import KEY_LIMIT_FIELDS, QueueSettings
from holdfast.model.registry import Change, Entry

KIND = "limits"
TYPE_LIMIT_FIELDS = ("max_inflight", "rate", "burst")
LIMIT_FIELDS = (*TYPE_LIMIT_FIELDS, *KEY_LIMIT_FIELDS)  # of a queue
KEY_BYTES = 16  # of a digest: the names of a queue and a type together can be longer than a key may be


class Origin(StrEnum):
    """Who set the limits of a queue or of a type in it."""

    HANDLER = "handler"
    SETTINGS = "settings"
    OPERATOR = "operator"


RANK = {origin: rank for rank, origin in enumerate(Origin)}  # a higher rank replaces a lower one


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
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOrigin:
    """The entry that remembers who set the limits. ``limits`` are those of a proposal; None for an operator."""

    origin: Origin
    limits: QueueLimits | None = None


def may_apply(proposal: LimitProposal, stored: LimitOrigin | None, current: QueueLimits) -> bool:
    """Whether a worker may store its proposal, beside the ``current`` limits that the store has.

    It replaces an older proposal of the same or of a lower origin. Limits that differ from the stored proposal were set
    by an operator, through ``configure``.
    """
    if stored is None:
        return current == NO_LIMITS
    if stored.limits is None or RANK[proposal.origin] < RANK[stored.origin]:
        return False
    # No limits although there is a proposal: the worker that wrote it ended before it configured the queue.
    return current in (stored.limits, NO_LIMITS) and current != proposal.limits


def key_of(queue: str, type_: str | None) -> str:
    """Return the key of the entry for a queue, or for one type in it. Names have no spaces."""
    return hashlib.blake2b(f"{queue} {type_ or ''}".encode(), digest_size=KEY_BYTES).hexdigest()


def origin_change(queue: str, type_: str | None, origin: LimitOrigin | None, *, version: int | None = None) -> Change:
    """Return the change that remembers who set the limits; None forgets it."""
    value = None
    if origin is not None:
        limits = origin.limits
        fields = {} if limits is None else {name: value for name, value in asdict(limits).items() if value is not None}
        entry = {"queue": queue, "type": type_, "origin": origin.origin, "limits": fields if limits else None}
        value = json.dumps(entry).encode()
    return Change(kind=KIND, key=key_of(queue, type_), value=value, version=version)


def read_origin(entry: Entry | None) -> LimitOrigin | None:
    """Return who set the limits; None if nobody did. Raises ``InvalidInput`` for an entry that cannot be read."""
    if entry is None:
        return None
    try:
        values = json.loads(entry.value or b"")
        limits = None if values["limits"] is None else QueueLimits(**values["limits"])
        return LimitOrigin(origin=Origin(values["origin"]), limits=limits)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{KIND} {entry.key}", wanted="an origin and limits", got=entry.value) from error


def parse_rate(field: str, rate: str | float | None) -> float | None:
    """Return reservations per second from a text such as ``100/s``, or from a number."""
    return duration.parse_rate(field, rate) if isinstance(rate, str) else rate
