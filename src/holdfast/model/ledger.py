"""The ledger: an append-only record with one row for every lease that ended (L13)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.model.job import State


class Ending(StrEnum):
    """How a lease ended. ``REQUEUED``, ``PURGED`` and sometimes ``CANCELLED`` are written without a lease."""

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
    """One ending, written in the transaction that ends the lease. Without a lease, fence and reserved_at are None."""

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
    state: State | None  # of the job after this ending; None once it is purged
    detail: str
    error: str
