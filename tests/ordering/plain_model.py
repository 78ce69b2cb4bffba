"""The contract of a work lease for one domain, written with plain sets and lists. The oracle of the state machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.errors import BacklogOrderingError, InvalidInput, LeaseNotFoundError, TokenMismatchError
from holdfast.ordering import (
    Acquired,
    AlreadyAcquired,
    AlreadyFailed,
    AlreadyProcessed,
    Busy,
    Enqueued,
    GiveUpNextHint,
    GiveUpNoBacklog,
    Halted,
    NextHint,
    NoBacklog,
    NotHead,
    RetryScheduled,
)


@dataclass(frozen=True)
class Options:
    max_retries: int
    strict: bool
    halt: bool
    lease_for: int | None  # microseconds
    watermark_distance: int | None


@dataclass
class PlainLease:
    offset: int
    token: str
    retry_count: int
    owner: str | None
    renewed_at: int


@dataclass
class PlainModel:
    options: Options
    lease: PlainLease | None = None
    processed: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    backlog: list[int] = field(default_factory=list)
    halted: int | None = None
    released: int | None = None
    acquired_at: dict[int, int] = field(default_factory=dict)

    def try_acquire(self, offset: int, owner: str | None, now: int) -> object:
        """Return the wanted answer; ``Acquired``, the class, if the lease must be granted (see ``grant``)."""
        if offset in self.processed:
            return AlreadyProcessed()
        if offset in self.failed:
            return AlreadyFailed()
        if self.halted is not None:
            self.wait(offset)
            return Halted(self.halted)
        if self.lease is not None:
            if offset != self.lease.offset:
                self.wait(offset)
                return Enqueued()
            if self.options.lease_for is None or now < self.lease.renewed_at + self.options.lease_for:
                return AlreadyAcquired(self.lease.token) if owner == self.lease.owner else Busy()
            if self.lease.retry_count == self.options.max_retries:
                self.exhaust()
                return AlreadyFailed() if self.halted is None else Halted(offset)
            return Acquired
        head = self.head()
        if head not in (None, offset):
            if self.options.strict:
                return BacklogOrderingError("d", expected=head, got=offset)
            self.wait(offset)
            return NotHead(head)
        return Acquired

    def grant(self, offset: int, owner: str | None, token: str, now: int) -> None:
        retry_count = 0 if self.lease is None else self.lease.retry_count + 1
        self.lease = PlainLease(offset, token, retry_count, owner, now)
        self.acquired_at.setdefault(offset, now)
        self.released = None
        if offset in self.backlog:
            assert self.backlog.pop(0) == offset

    def succeed(self, token: str) -> object:
        refusal = self.refusal(token)
        if refusal is not None:
            return refusal
        offset = self.lease.offset
        self.processed.add(offset)
        self.lease = None
        self.follow(offset)
        head = self.head()
        return NoBacklog() if head is None else NextHint(head)

    def fail(self, token: str, now: int) -> object:
        refusal = self.refusal(token)
        if refusal is not None:
            return refusal
        if self.lease.retry_count < self.options.max_retries:
            self.lease.retry_count += 1
            self.lease.renewed_at = now
            return RetryScheduled(self.lease.retry_count)
        offset = self.lease.offset
        self.exhaust()
        if self.halted is not None:
            return Halted(offset)
        head = self.head()
        return GiveUpNoBacklog() if head is None else GiveUpNextHint(head)

    def extend(self, token: str, now: int) -> object:
        refusal = self.refusal(token)
        if refusal is None:
            self.lease.renewed_at = now
        return refusal

    def resume(self, *, skip: bool) -> object:
        if self.halted is None:
            return InvalidInput("domain", wanted="a halted domain", got="d")
        if skip:
            self.failed.add(self.halted)
        else:
            self.released = self.halted
        self.halted = None
        head = self.head()
        return NoBacklog() if head is None else NextHint(head)

    def set_watermark(self, limit: int) -> None:
        busy = [*self.backlog, self.lease.offset if self.lease else None, self.halted, self.released]
        limit = min([limit, *(offset for offset in busy if offset is not None)])
        self.processed |= set(range(limit))
        self.failed -= set(range(limit))

    def head(self) -> int | None:
        return self.released if self.released is not None else self.backlog[0] if self.backlog else None

    def wait(self, offset: int) -> None:
        if offset not in (*self.backlog, self.halted, self.released):
            self.backlog.append(offset)

    def exhaust(self) -> None:
        offset = self.lease.offset
        self.lease = None
        if self.options.halt:
            self.halted = offset
        else:
            self.failed.add(offset)
            self.follow(offset)

    def follow(self, offset: int) -> None:
        if self.options.watermark_distance is not None:
            self.set_watermark(offset - self.options.watermark_distance)

    def refusal(self, token: str) -> Exception | None:
        if self.lease is None:
            return LeaseNotFoundError("d")
        return None if token == self.lease.token else TokenMismatchError("d")
