"""The four ways to end a lease. ``settle`` takes a batch of them, in any mix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, cast

from holdfast.clock import DAY
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.lease import Lease
from holdfast.model.registry import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    started_at: int | None = None  # when the handler began, by the worker's clock: for the ledger, decides nothing
    detail: str = ""  # one line for the ledger

    def _keep(self, *fields: str) -> None:
        """Make texts fit to be stored: an ending is never refused for the looks of its error."""
        for field in fields:
            text = getattr(self, field)
            if text:
                object.__setattr__(self, field, bounds.kept(text))


@dataclass(frozen=True, slots=True)
class Ack(_Ending):
    """Done. ``result`` is kept with the job; ``writes`` commit together with the ack or not at all."""

    verb: ClassVar[str] = "ack"
    lease: Lease
    result: bytes | None = None
    writes: tuple[Change, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a result that is too large: the attempt can still be settled as something else."""
        if self.detail:
            self._keep("detail")
        if self.result is not None:
            bounds.blob("result", self.result, most=bounds.MAX_STORED_PAYLOAD)
        if self.writes and len(self.writes) > len({(write.kind, write.key) for write in self.writes}):
            raise InvalidInput("writes", wanted="every key once", got="two writes to one key")


_THAWED = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
_AckDraft: Any = type("AckDraft", (_Ending,), {"__slots__": Ack.__slots__, "__init__": object.__init__, **_THAWED})


def plain_ack(lease: Lease, started_at: int | None, result: bytes | None) -> Ack:
    """What most attempts come to, made in a quarter of the time (see ``draft.py``). The result has been checked."""
    ack = _AckDraft()
    ack.lease = lease
    ack.started_at = started_at
    ack.detail = ""
    ack.result = result
    ack.writes = ()
    ack.__class__ = Ack
    return cast("Ack", ack)


@dataclass(frozen=True, slots=True)
class Retry(_Ending):
    """Again later: at ``run_at``, or ``delay`` microseconds after the store's now. The attempt stays counted.

    ``crashed`` says that the attempt took its process down: it counts like an expired lease towards ``max_crashes``.
    """

    verb: ClassVar[str] = "retry"
    lease: Lease
    delay: int = 0
    run_at: int | None = None
    error: str = ""
    crashed: bool = False

    def __post_init__(self) -> None:
        """One of ``delay`` and ``run_at`` at most, both in range."""
        self._keep("detail", "error")
        bounds.integer("delay", self.delay, most=bounds.MAX_LENGTH)
        if self.run_at is not None:
            bounds.integer("run_at", self.run_at, most=bounds.MAX_INSTANT)
            if self.delay:
                raise InvalidInput("run_at", wanted="either delay or run_at", got="both")


@dataclass(frozen=True, slots=True)
class Fail(_Ending):
    """Never again: the job becomes a dead letter with ``reason`` and ``error``, and can be requeued."""

    verb: ClassVar[str] = "fail"
    lease: Lease
    reason: str
    error: str = ""

    def __post_init__(self) -> None:
        """A dead letter without a reason helps nobody."""
        self._keep("detail", "error")
        if not self.reason:
            raise InvalidInput("reason", wanted="why the job failed for good", got="nothing")
        object.__setattr__(self, "reason", bounds.kept(self.reason, bounds.MAX_REASON))


@dataclass(frozen=True, slots=True)
class Release(_Ending):
    """Give the job back with its attempt refunded, for now or for ``delay`` microseconds later.

    ``budget`` bounds how long a job may be passed around without a counted run (law L8): the store adds up its delays
    and the time it was held, and makes it a dead letter when they exceed it.
    """

    verb: ClassVar[str] = "release"
    lease: Lease
    delay: int = 0
    budget: int = DAY

    def __post_init__(self) -> None:
        """Both lengths in range."""
        self._keep("detail")
        bounds.integer("delay", self.delay, most=bounds.MAX_LENGTH)
        bounds.integer("budget", self.budget, most=bounds.MAX_LENGTH)


Settlement: TypeAlias = Ack | Retry | Fail | Release
