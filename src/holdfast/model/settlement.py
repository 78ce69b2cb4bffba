"""The four settlements, which end a lease. ``settle`` takes a batch of them in any mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, cast

from holdfast.clock import DAY
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.lease import Lease
from holdfast.model.registry import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    started_at: int | None = None  # start of the handler by the worker's clock: only for the ledger
    detail: str = ""  # one line for the ledger

    def _truncate(self, *fields: str) -> None:
        """Shorten texts so that they can be stored: a settlement is never refused because of its error text."""
        for field in fields:
            text = getattr(self, field)
            if text:
                object.__setattr__(self, field, bounds.truncate_text(text))


@dataclass(frozen=True, slots=True)
class Ack(_Common):
    """The job is done. ``result`` is stored with the job; ``writes`` are committed with the ack or not at all."""

    verb: ClassVar[str] = "ack"
    lease: Lease
    result: bytes | None = None
    writes: tuple[Change, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a result that is too large: the caller can still settle the attempt in another way."""
        if self.detail:
            self._truncate("detail")
        if self.result is not None:
            bounds.check_blob("result", self.result, most=bounds.MAX_STORED_PAYLOAD_BYTES)
        if self.writes and len(self.writes) > len({(write.kind, write.key) for write in self.writes}):
            raise InvalidInput("writes", wanted="every key once", got="two writes to one key")


_MUTABLE = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
_MutableAck: Any = type("MutableAck", (_Common,), {"__slots__": Ack.__slots__, "__init__": object.__init__, **_MUTABLE})


def make_ack(lease: Lease, started_at: int | None, result: bytes | None) -> Ack:
    """Return an ack of a checked result, built in a quarter of the time; see ``fast_construction``."""
    ack = _MutableAck()
    ack.lease = lease
    ack.started_at = started_at
    ack.detail = ""
    ack.result = result
    ack.writes = ()
    ack.__class__ = Ack
    return cast("Ack", ack)


def add_writes(ack: Ack, writes: Sequence[Change]) -> Ack:
    """Return the ack with more writes, to entries that it does not write yet; built as by ``make_ack``."""
    changed = _MutableAck()
    changed.lease = ack.lease
    changed.started_at = ack.started_at
    changed.detail = ack.detail
    changed.result = ack.result
    changed.writes = (*ack.writes, *writes)
    changed.__class__ = Ack
    return cast("Ack", changed)


@dataclass(frozen=True, slots=True)
class Retry(_Common):
    """Run the job again: at ``run_at``, or ``delay`` microseconds after the store's now. The attempt stays counted.

    ``crashed`` means that the process of the attempt died: it counts towards ``max_crashes`` like an expired lease.
    With ``hold_key``, no job with the limit key of this job, in its queue, is reserved before ``run_at`` or the end of
    the delay, even if this job has no attempts left.
    """

    verb: ClassVar[str] = "retry"
    lease: Lease
    delay: int = 0
    run_at: int | None = None
    error: str = ""
    crashed: bool = False
    hold_key: bool = False

    def __post_init__(self) -> None:
        """Check ``run_at`` and ``delay``, and that at most one of them is set."""
        self._truncate("detail", "error")
        bounds.check_integer("delay", self.delay, most=bounds.MAX_DURATION)
        if self.run_at is not None:
            bounds.check_integer("run_at", self.run_at, most=bounds.MAX_INSTANT)
            if self.delay:
                raise InvalidInput("run_at", wanted="either delay or run_at", got="both")
        if type(self.hold_key) is not bool:
            raise InvalidInput("hold_key", wanted="True or False", got=self.hold_key)

    def held_until(self, now: int) -> int | None:
        """Return when the hold of the job's key ends; None if this retry holds no key."""
        if not self.hold_key:
            return None
        return min(now + self.delay, bounds.MAX_INSTANT) if self.run_at is None else self.run_at


@dataclass(frozen=True, slots=True)
class Fail(_Common):
    """The job failed for good: it becomes a dead letter with ``reason`` and ``error``, and can be requeued."""

    verb: ClassVar[str] = "fail"
    lease: Lease
    reason: str
    error: str = ""

    def __post_init__(self) -> None:
        """Check that there is a reason."""
        self._truncate("detail", "error")
        if not self.reason:
            raise InvalidInput("reason", wanted="why the job failed for good", got="nothing")
        object.__setattr__(self, "reason", bounds.truncate_text(self.reason, bounds.MAX_REASON_CHARACTERS))


@dataclass(frozen=True, slots=True)
class Release(_Common):
    """Return the job to its queue, due now or ``delay`` microseconds later. The attempt is refunded.

    ``budget`` limits the time that a job may spend on releases (L8): the store adds up the delays and the time that the
    job was leased, and makes it a dead letter when the sum exceeds the budget.
    """

    verb: ClassVar[str] = "release"
    lease: Lease
    delay: int = 0
    budget: int = DAY

    def __post_init__(self) -> None:
        """Check both durations."""
        self._truncate("detail")
        bounds.check_integer("delay", self.delay, most=bounds.MAX_DURATION)
        bounds.check_integer("budget", self.budget, most=bounds.MAX_DURATION)


Settlement: TypeAlias = Ack | Retry | Fail | Release
