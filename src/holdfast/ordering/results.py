"""What the calls of a ``WorkLease`` answer. Each answer is a class, so that ``match`` takes it apart."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.errors import LeaseNotFoundError, TokenMismatchError


@dataclass(frozen=True, slots=True)
class Acquired:
    """The caller has the lease of the offset and processes it now.

    ``token`` proves it. ``fence`` is larger for every later lease of the domain: a system that remembers the largest
    fence it has seen can refuse writes of an earlier holder.
    """

    token: str = field(repr=False)  # a secret, not for logs: every process that knows it can end the lease
    fence: int = field(default=0, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class AlreadyAcquired:
    """The offset is in flight. The answer has the token of its lease; with owners, only for the owner itself."""

    token: str = field(repr=False)
    fence: int = field(default=0, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """Another offset is in flight; this one waits in the backlog, now or since an earlier call."""


@dataclass(frozen=True, slots=True)
class AlreadyProcessed:
    """The offset was processed, or is below the watermark."""


@dataclass(frozen=True, slots=True)
class AlreadyFailed:
    """The offset was given up."""


@dataclass(frozen=True, slots=True)
class Busy:
    """The offset is in flight, and its live lease belongs to another owner."""


@dataclass(frozen=True, slots=True)
class NotHead:
    """The offset waits in the backlog; ``head`` must be acquired first. Only with ``strict=False``."""

    head: int


@dataclass(frozen=True, slots=True)
class Halted:
    """The domain stands still: ``offset`` has no retries left, and ``resume`` was not called yet.

    Only with ``on_exhausted="halt"``. A new offset was added to the backlog.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class NoBacklog:
    """The lease has ended, and no offset waits."""


@dataclass(frozen=True, slots=True)
class NextHint:
    """The lease has ended, and ``offset`` is the head of the backlog. Nobody has acquired it yet."""

    offset: int


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """The attempt failed for the ``count``-th time. The lease stays; the caller decides when to try again."""

    count: int


@dataclass(frozen=True, slots=True)
class GiveUpNoBacklog:
    """The offset had no retries left and was given up. The lease has ended, and no offset waits."""


@dataclass(frozen=True, slots=True)
class GiveUpNextHint:
    """The offset had no retries left and was given up. The lease has ended; ``offset`` is the head of the backlog."""

    offset: int


AcquireResult = Acquired | AlreadyAcquired | Enqueued | AlreadyProcessed | AlreadyFailed | Busy | NotHead | Halted
SucceedResult = NoBacklog | NextHint
FailResult = RetryScheduled | GiveUpNoBacklog | GiveUpNextHint | Halted
FinishError = TokenMismatchError | LeaseNotFoundError  # an answer only with ``errors="return"``
