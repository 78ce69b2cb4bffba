"""``JobFilter``: which jobs a list contains."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.model.job import State


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
