"""How long an idempotency key is taken: ``unique`` of a request, ``unique_for`` of a record (L12).

| ``unique`` | ``unique_for`` | the key is taken |
|---|---|---|
| ``None`` | ``None`` | while its job has not ended, and at least for the ``dedupe_window`` of the queue |
| a timedelta | its microseconds | while its job has not ended, and at least for this time since the enqueue |
| ``"while_open"`` | ``WHILE_OPEN`` | while its job has not ended |
| ``"while_queued"`` | ``WHILE_QUEUED`` | while its job is ready: waiting, scheduled, or waiting for a retry |

The job that has the key decides, not the job that asks for the key.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypeAlias, cast

from holdfast.errors import InvalidInput
from holdfast.model import bounds, duration

Rule: TypeAlias = Literal["while_queued", "while_open"]
Unique: TypeAlias = Rule | timedelta

WHILE_OPEN = 0  # a window without length
WHILE_QUEUED = -1

_RULES: dict[str, int] = {"while_queued": WHILE_QUEUED, "while_open": WHILE_OPEN}
_NAMES = {unique_for: cast("Rule", name) for name, unique_for in _RULES.items()}


def to_unique_for(unique: Unique | None) -> int | None:
    """Return what a record stores for the ``unique`` of a request. Raises ``InvalidInput`` for any other value."""
    if unique is None:
        return None
    if isinstance(unique, timedelta):
        return bounds.duration_from("unique", unique, least=1)
    if isinstance(unique, str) and unique in _RULES:
        return _RULES[unique]
    raise InvalidInput("unique", wanted="'while_queued', 'while_open' or a timedelta", got=unique)


def parse_unique(field: str, text: object) -> Unique:
    """Return the value that a text names: a rule, or a length such as ``5m``. Raises ``InvalidInput``."""
    if text in _RULES:
        return cast("Rule", text)
    wanted = f"while_queued, while_open or {duration.WANTED_DURATION}"
    if not isinstance(text, str):
        raise InvalidInput(field, wanted=wanted, got=text)
    try:
        return duration.parse(field, text)
    except InvalidInput as error:
        raise InvalidInput(field, wanted=wanted, got=text) from error


def rule_of(unique_for: int | None) -> Rule | None:
    """Return the name of a rule without a window; None for a window and for None."""
    return None if unique_for is None else _NAMES.get(unique_for)


def from_rule(rule: Rule) -> int:
    """Return the ``unique_for`` of a rule."""
    return _RULES[rule]


def check_unique_for(unique_for: object) -> None:
    """Check the value of a record."""
    bounds.check_optional_integer("unique_for", unique_for, least=WHILE_QUEUED, most=bounds.MAX_DURATION)


def window_of(unique_for: int | None, queue_window: int) -> int:
    """Return how long the key is taken at least, also after its job has ended."""
    return queue_window if unique_for is None else max(unique_for, WHILE_OPEN)
