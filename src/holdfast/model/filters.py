"""``JobFilter``: which jobs a list contains."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import InvalidInput
from holdfast.model.job import State

_TEXTS = ("queue", "type", "domain", "name", "idempotency_key", "reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Conditions that a job must all meet; a condition of None is met by every job."""

    states: tuple[State, ...] | None = None
    queue: str | None = None
    type: str | None = None
    domain: str | None = None
    name: str | None = None
    idempotency_key: str | None = None
    reason: str | None = None  # of a dead letter, exact
    created_from: int | None = None  # inclusive
    created_before: int | None = None  # exclusive

    def __post_init__(self) -> None:
        """Raise ``InvalidInput`` for a condition that a store cannot read."""
        for field in _TEXTS:
            value = getattr(self, field)
            if value is not None and not _is_utf8(value):
                raise InvalidInput(field, wanted="text in UTF-8", got=value)


def _is_utf8(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(value.isascii() or value.encode())
    except UnicodeEncodeError:  # half a surrogate pair, from bytes of a command line for example
        return False
