"""The state machine of one domain: what each call changes and answers. Pure: no clock, no lock, no store.

Every function raises before it changes anything, or changes the domain as a whole. The caller makes sure that no two
calls change one domain at the same time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from holdfast.errors import BacklogOrderingError, InvalidInput, LeaseNotFoundError, TokenMismatchError
from holdfast.model.interval_set import IntervalSet
from holdfast.model.lease import make_tokens
from holdfast.model.queue_settings import OnExhausted
from holdfast.ordering.backlog import Backlog
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The lease of the offset in flight. Instants and durations are microseconds.

    ``acquired_at`` is the instant of the first acquisition of the offset and never changes. A lease with ``lease_for``
    lapses that long after ``renewed_at``, if it is not renewed. ``renewals`` makes every renewal a change of the
    record, also while a clock stands still.
    """

    offset: int
    token: str = field(repr=False)
    fence: int
    acquired_at: int
    retry_count: int = 0
    owner: str | None = None
    lease_for: int | None = None
    renewed_at: int
    renewals: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltRecord:
    """The offset that halted the domain. With ``is_released``, an operator lets it run again: it is the next one."""

    offset: int
    acquired_at: int
    is_released: bool = False


@dataclass(slots=True, kw_only=True)
class Domain:
    """Everything that is known of one domain. ``has_lapsed`` asks the clock that judges its leases."""

    name: str
    has_lapsed: Callable[[LeaseRecord], bool]
    lease: LeaseRecord | None = None
    halt: HaltRecord | None = None
    fence: int = 0  # of the latest lease
    processed: IntervalSet = field(default_factory=IntervalSet)
    failed: IntervalSet = field(default_factory=IntervalSet)
    backlog: Backlog = field(default_factory=Backlog)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The options of a ``WorkLease`` that decide about changes."""

    max_retries: int
    strict: bool = True
    on_exhausted: OnExhausted = OnExhausted.SKIP
    watermark_distance: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one call of ``try_acquire`` asks for, with the instant and the random bytes of a new lease."""

    offset: int
    owner: str | None = None
    lease_for: int | None = None
    now: int
    token_bytes: bytes = field(repr=False)


def try_acquire(domain: Domain, claim: Claim, rules: Rules) -> AcquireResult:
    """Acquire the offset, or say why not. Raises ``BacklogOrderingError`` if another offset is the head."""
    if claim.offset in domain.processed:
        return AlreadyProcessed()
    if claim.offset in domain.failed:
        return AlreadyFailed()
    if domain.halt is not None and not domain.halt.is_released:
        _add_to_backlog(domain, claim.offset)
        return Halted(domain.halt.offset)
    if domain.lease is None:
        return _acquire_head(domain, claim, rules)
    if claim.offset != domain.lease.offset:
        _add_to_backlog(domain, claim.offset)
        return Enqueued()
    if domain.has_lapsed(domain.lease):
        return _take_over(domain, domain.lease, claim, rules)
    if claim.owner != domain.lease.owner:
        return Busy()
    return AlreadyAcquired(domain.lease.token, fence=domain.lease.fence)


def succeed(domain: Domain, token: str, rules: Rules) -> SucceedResult:
    """End the lease: its offset is processed. The answer names the head of the backlog, which stays there."""
    lease = _held(domain, token)
    domain.processed.add(lease.offset)
    domain.lease = None
    _follow_with_watermark(domain, lease.offset, rules)
    return _hint(domain)


def fail(domain: Domain, token: str, rules: Rules, *, now: int) -> FailResult:
    """Count a failed attempt. The lease stays while there are retries left, and is renewed."""
    lease = _held(domain, token)
    if lease.retry_count < rules.max_retries:
        domain.lease = replace(lease, retry_count=lease.retry_count + 1, renewed_at=now)
        return RetryScheduled(lease.retry_count + 1)
    _exhaust(domain, lease, rules)
    if domain.halt is not None:
        return Halted(lease.offset)
    head = _peek(domain)
    return GiveUpNoBacklog() if head is None else GiveUpNextHint(head)


def renew(domain: Domain, token: str, lease_for: int, *, now: int) -> None:
    """Let the lease begin again."""
    lease = _held(domain, token)
    domain.lease = replace(lease, lease_for=lease_for, renewed_at=now, renewals=lease.renewals + 1)


def resume(domain: Domain, rules: Rules, *, skip: bool) -> SucceedResult:
    """Let a halted domain go on: give its offset up, or let it run again, without the retries that it has used."""
    halt = domain.halt
    if halt is None or halt.is_released:
        raise InvalidInput("domain", wanted="a halted domain", got=domain.name)
    if skip:
        domain.failed.add(halt.offset)
        domain.halt = None
        _follow_with_watermark(domain, halt.offset, rules)
    else:
        domain.halt = replace(halt, is_released=True)
    return _hint(domain)


def raise_watermark(domain: Domain, below: int) -> int:
    """Take all offsets below the watermark as processed; return the watermark.

    The watermark stops at an offset that waits or is in flight.
    """
    waiting = (
        None if domain.lease is None else domain.lease.offset,
        None if domain.halt is None else domain.halt.offset,
        domain.backlog.lowest,
    )
    limit = min([below, *(offset for offset in waiting if offset is not None)])
    domain.processed.fill_below(limit)
    domain.failed.discard_below(limit)
    return limit


def _acquire_head(domain: Domain, claim: Claim, rules: Rules) -> Acquired | NotHead:
    """Acquire an offset while nothing is in flight."""
    head, halt = _peek(domain), domain.halt
    if head is not None and head != claim.offset:
        if rules.strict:
            raise BacklogOrderingError(domain.name, expected=head, got=claim.offset)
        _add_to_backlog(domain, claim.offset)
        return NotHead(head)
    if halt is not None:  # released by an operator
        domain.halt = None
        return _grant(domain, claim, acquired_at=halt.acquired_at)
    if head is not None:
        domain.backlog.popleft()
    return _grant(domain, claim, acquired_at=claim.now)


def _take_over(domain: Domain, lease: LeaseRecord, claim: Claim, rules: Rules) -> Acquired | AlreadyFailed | Halted:
    """Replace a lapsed lease: its attempt counts as failed."""
    if lease.retry_count < rules.max_retries:
        return _grant(domain, claim, acquired_at=lease.acquired_at, retry_count=lease.retry_count + 1)
    _exhaust(domain, lease, rules)
    return AlreadyFailed() if domain.halt is None else Halted(lease.offset)


def _grant(domain: Domain, claim: Claim, *, acquired_at: int, retry_count: int = 0) -> Acquired:
    domain.fence += 1
    [token] = make_tokens([domain.fence], claim.token_bytes)
    domain.lease = LeaseRecord(
        offset=claim.offset,
        token=token,
        fence=domain.fence,
        acquired_at=acquired_at,
        retry_count=retry_count,
        owner=claim.owner,
        lease_for=claim.lease_for,
        renewed_at=claim.now,
    )
    return Acquired(token, fence=domain.fence)


def _held(domain: Domain, token: str) -> LeaseRecord:
    """Return the lease, if this is its token."""
    if domain.lease is None:
        raise LeaseNotFoundError(domain.name)
    if not secrets.compare_digest(domain.lease.token.encode(), token.encode(errors="surrogatepass")):
        raise TokenMismatchError(domain.name)
    return domain.lease


def _exhaust(domain: Domain, lease: LeaseRecord, rules: Rules) -> None:
    """End the lease of an offset that has no retries left."""
    domain.lease = None
    if rules.on_exhausted is OnExhausted.HALT:
        domain.halt = HaltRecord(offset=lease.offset, acquired_at=lease.acquired_at)
    else:
        domain.failed.add(lease.offset)
        _follow_with_watermark(domain, lease.offset, rules)


def _add_to_backlog(domain: Domain, offset: int) -> None:
    """Add an offset that has not ended and is not in flight, once."""
    if offset not in domain.backlog and (domain.halt is None or offset != domain.halt.offset):
        domain.backlog.append(offset)


def _peek(domain: Domain) -> int | None:
    """Return the offset that must be acquired next."""
    return domain.backlog.peek() if domain.halt is None else domain.halt.offset


def _hint(domain: Domain) -> SucceedResult:
    head = _peek(domain)
    return NoBacklog() if head is None else NextHint(head)


def _follow_with_watermark(domain: Domain, offset: int, rules: Rules) -> None:
    if rules.watermark_distance is not None and offset > rules.watermark_distance:
        raise_watermark(domain, offset - rules.watermark_distance)
