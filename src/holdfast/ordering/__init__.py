"""Work in order: ``WorkLease`` gives one offset at a time per domain, under a lease with a fencing token.

This package is part of the public API.
"""

from __future__ import annotations

from holdfast.errors import (
    BacklogOrderingError,
    DomainFull,
    LeaseNotFoundError,
    OrderingError,
    TokenMismatchError,
)
from holdfast.model.interval_set import IntervalSet
from holdfast.ordering.results import (
    Acquired,
    AcquireResult,
    AlreadyAcquired,
    AlreadyFailed,
    AlreadyProcessed,
    Busy,
    Enqueued,
    FailResult,
    GiveUpNextHint,
    GiveUpNoBacklog,
    Halted,
    NextHint,
    NoBacklog,
    NotHead,
    RetryScheduled,
    SucceedResult,
)
from holdfast.ordering.state import DomainState, LeaseState
from holdfast.ordering.work_lease import WorkLease

__all__ = [
    "AcquireResult",
    "Acquired",
    "AlreadyAcquired",
    "AlreadyFailed",
    "AlreadyProcessed",
    "BacklogOrderingError",
    "Busy",
    "DomainFull",
    "DomainState",
    "Enqueued",
    "FailResult",
    "GiveUpNextHint",
    "GiveUpNoBacklog",
    "Halted",
    "IntervalSet",
    "LeaseNotFoundError",
    "LeaseState",
    "NextHint",
    "NoBacklog",
    "NotHead",
    "OrderingError",
    "RetryScheduled",
    "SucceedResult",
    "TokenMismatchError",
    "WorkLease",
]
