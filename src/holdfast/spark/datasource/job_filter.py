"""The options of the ``jobs`` source that filter at the store. Read on the Spark driver, once for each frame.

Filters of Spark (``where``) are not pushed to the store: Spark keeps pushed filters in a reader that all queries of a
frame share, so one query would get the filters of another (see ADR 0021).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.clock import from_datetime
from holdfast.errors import InvalidInput
from holdfast.model import bounds, instant
from holdfast.model.filters import JobFilter
from holdfast.model.job import State

FILTER_OPTIONS: Final = ("queue", "state", "type", "domain", "name", "key", "reason", "since", "until")


def parse_job_filter(options: Mapping[str, str]) -> JobFilter:
    """Return the filter that the options describe; a job must meet all of them. Raises ``InvalidInput``."""
    return JobFilter(
        states=_states(options["state"]) if "state" in options else None,
        queue=_name(options, "queue"),
        type=_name(options, "type"),
        domain=_text(options, "domain"),
        name=_text(options, "name"),
        idempotency_key=_text(options, "key"),
        reason=_text(options, "reason"),
        created_from=_instant(options, "since"),
        created_before=_instant(options, "until"),
    )


def _states(text: str) -> tuple[State, ...]:
    names = [part.strip() for part in text.split(",")]
    unknown = [name for name in names if name not in set(State)]
    if unknown:
        wanted = f"states, separated by commas: {', '.join(State)}"
        raise InvalidInput("option state", wanted=wanted, got=unknown[0] or "nothing")
    return tuple(state for state in State if state in names)


def _name(options: Mapping[str, str], option: str) -> str | None:
    return bounds.check_name(f"option {option}", options[option]) if option in options else None


def _text(options: Mapping[str, str], option: str) -> str | None:
    return bounds.check_text(f"option {option}", options[option]) if option in options else None


def _instant(options: Mapping[str, str], option: str) -> int | None:
    return from_datetime(instant.parse(f"option {option}", options[option])) if option in options else None
