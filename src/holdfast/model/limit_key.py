"""Where the limit key of a job comes from: a field of its payload, or a function of the payload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from holdfast.errors import InvalidInput
from holdfast.model import bounds

LimitKeySource: TypeAlias = str | Callable[[Any], str | int | None]


def check_source(source: object) -> None:
    """Raise ``InvalidInput`` for a value that is neither the name of a field nor a function."""
    if not callable(source):
        bounds.check_text("limit_key", source)


def limit_key_of(source: LimitKeySource, payload: object) -> str | None:
    """Return the limit key of a job with this payload; None for a job without one.

    Raises ``InvalidInput`` for a payload without the field, and for a key that is neither a short text nor a number.
    """
    key = _field_of(source, payload) if isinstance(source, str) else source(payload)
    if key is None:
        return None
    return bounds.check_text("limit_key", str(key) if type(key) is int else key)


def _field_of(name: str, payload: object) -> object:
    try:
        return payload[name] if isinstance(payload, Mapping) else getattr(payload, name)
    except (KeyError, AttributeError) as error:
        raise InvalidInput("limit_key", wanted=f"a payload with the field {name}", got=payload) from error
