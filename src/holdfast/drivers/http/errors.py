"""Errors as data: the name of the class and its facts. The other side raises the same error with the same facts.

Only errors of the contract travel, and only their facts. The text of a ``StoreError`` stays behind: it may name hosts
and users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast.errors import (
    CallerClockRefused,
    HoldfastError,
    InvalidInput,
    JobNotInflight,
    LeaseExpired,
    LeaseMismatch,
    LedgerTrimmed,
    PayloadError,
    PayloadTooLarge,
    SpaceInUse,
    StoreBusy,
    StoreFull,
    Unsupported,
    WriteRefused,
)


class ErrorFacts(NamedTuple):
    """One error: a refusal of one item of a batch, or what a problem (RFC 9457) has besides its usual members."""

    error: str
    facts: dict[str, str | int | float | None]


class _Form(NamedTuple):
    positional: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


_FORMS: Mapping[type[HoldfastError], _Form] = {
    InvalidInput: _Form(("field",), ("wanted", "got")),
    PayloadError: _Form(("field",), ("wanted", "got")),
    PayloadTooLarge: _Form(("field",), ("wanted", "got")),
    Unsupported: _Form(("driver", "feature", "reason")),
    JobNotInflight: _Form(("job_id", "state")),
    LeaseMismatch: _Form(("job_id",)),
    LeaseExpired: _Form(("job_id",), ("expires_at", "now")),
    WriteRefused: _Form(("job_id",), ("kind", "key")),
    StoreBusy: _Form(("waited",)),
    StoreFull: _Form((), ("free", "floor")),
    SpaceInUse: _Form(("space",), ("leases",)),
    LedgerTrimmed: _Form(("cursor",)),
    CallerClockRefused: _Form(),
}
_BY_NAME: Mapping[str, type[HoldfastError]] = {kind.__name__: kind for kind in _FORMS}


def pack_error(error: HoldfastError) -> ErrorFacts | None:
    """Return an error as data; None for an error that does not travel."""
    form = _FORMS.get(type(error))
    if form is None:
        return None
    facts = {name: getattr(error, name) for name in (*form.positional, *form.keywords)}
    return ErrorFacts(type(error).__name__, facts)


def read_error(message: ErrorFacts) -> HoldfastError | None:
    """Return the error; None if this version does not know it, or if facts are missing."""
    kind = _BY_NAME.get(message.error)
    if kind is None:
        return None
    form = _FORMS[kind]
    make: Callable[..., HoldfastError] = kind
    facts: dict[str, Any] = message.facts
    try:
        return make(*(facts[name] for name in form.positional), **{name: facts[name] for name in form.keywords})
    except (KeyError, TypeError, ValueError):
        return None
