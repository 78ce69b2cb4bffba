"""The ledger: an append-only record with one row for every lease that ended (L13)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from holdfast.model import bounds
from holdfast.model.job import State

Count = Annotated[int, msgspec.Meta(ge=0)]
Instant = Annotated[int, msgspec.Meta(ge=0, le=bounds.LAST_INSTANT)]


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


class LedgerRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """One ending, written in the transaction that ends the lease. Without a lease, fence and reserved_at are None.

    ``msgspec.convert`` makes it of a stored row, and refuses numbers that no ending has.
    """

    job_id: str
    type: str
    queue: str
    domain: str | None
    offset: Count | None
    attempt: Count
    fence: Count | None
    worker: str
    enqueued_at: Instant
    available_at: Instant
    reserved_at: Instant | None
    started_at: Instant | None
    ended_at: Instant
    ending: Ending
    state: State | None  # of the job after this ending; None once it is purged
    detail: str
    error: str
