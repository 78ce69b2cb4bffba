"""The four settlements, which end a lease. ``settle`` takes a batch of them in any mix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import msgspec
from msgspec.structs import force_setattr, replace

from holdfast.clock import DAY
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.lease import Lease
from holdfast.model.registry import Change


class _Common(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    started_at: int | None = None  # start of the handler by the worker's clock: only for the ledger
    detail: str = ""  # one line for the ledger

    def _truncate(self, *fields: str) -> None:
        """Shorten texts so that they can be stored: a settlement is never refused because of its error text."""
        for field in fields:
            text = getattr(self, field)
            if text:
                force_setattr(self, field, bounds.truncate_text(text))


class Ack(_Common, frozen=True, gc=False, tag_field="verb", tag="ack"):
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


def add_writes(ack: Ack, writes: Sequence[Change]) -> Ack:
    """Return the ack with more writes, to entries that it does not write yet."""
    return replace(ack, writes=(*ack.writes, *writes))


class Retry(_Common, frozen=True, gc=False, tag_field="verb", tag="retry"):
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


class Fail(_Common, frozen=True, gc=False, tag_field="verb", tag="fail"):
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
        force_setattr(self, "reason", bounds.truncate_text(self.reason, bounds.MAX_REASON_CHARACTERS))


class Release(_Common, frozen=True, gc=False, tag_field="verb", tag="release"):
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
