"""The append-only record of every ending (law L13)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.model.job import State


class Ending(StrEnum):
    """How a lease ended; the last two are written without one, and so may ``CANCELLED`` be."""

    ACKED = "acked"
    RETRIED = "retried"
    FAILED = "failed"
    RELEASED = "released"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    REQUEUED = "requeued"
    PURGED = "purged"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One ending, written in the transaction that made it true; no lease, no ``fence`` and no ``reserved_at``."""

    job_id: str
    type: str
    queue: str
    domain: str | None
    offset: int | None
    attempt: int
    fence: int | None
    worker: str
    enqueued_at: int
    available_at: int
    reserved_at: int | None
    started_at: int | None
    ended_at: int
    ending: Ending
    state: State | None  # of the job afterwards; None once it is purged
    detail: str
    error: str
