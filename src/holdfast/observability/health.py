"""Health of a worker: is its loop alive, and does it reserve? For probes, and for programs that run a worker.

    health = Health()
    worker = app.worker(observers=[health])
    ...
    health.live().ok, health.ready().reasons

``live`` is red if the loop is blocked although the store answers: only a restart helps. While the store is out of
reach, ``live`` stays green, because a restart would not help. ``ready`` is red if the worker does not reserve: it has
not started, it drains, or the store has not answered a reserve lately. A worker that holds all the jobs that it may is
ready.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.clock import monotonic
from holdfast.errors import StoreError
from holdfast.model.lease import Reservation
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.status import Settled

BLOCKED_SECONDS = 90.0  # of a loop that did not come round; longer than any call to the store takes (SQLite: 60)
RESERVE_SECONDS = 30.0  # since the last reserve that the store answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a worker. Times are monotonic seconds; None: never."""

    started_at: float | None = None
    looped_at: float | None = None  # when its loop last came round
    reserved_at: float | None = None  # when the store last answered a reserve
    answered_at: float | None = None  # when the store last answered any call
    is_full: bool = False  # it holds as many jobs as it may, so it does not reserve
    is_stopping: bool = False
    has_stopped: bool = False
    failure: str = ""  # of the last call to the store, if it failed


@dataclass(frozen=True, slots=True)
class Verdict:
    """Green without reasons, red with at least one."""

    reasons: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it is green."""
        return not self.reasons


def judge_live(facts: Facts, now: float) -> Verdict:
    """Return whether a worker is alive."""
    if facts.has_stopped:
        return Verdict(("the worker has stopped",))
    if facts.looped_at is None or facts.is_stopping:  # a drain is bounded by its own time
        return Verdict()
    blocked = now - facts.looped_at
    store_answers = facts.answered_at is not None and facts.answered_at > facts.looped_at
    if blocked > BLOCKED_SECONDS and store_answers:
        return Verdict((f"the loop has been blocked for {blocked:.0f} s, and the store answers",))
    return Verdict()


def judge_ready(facts: Facts, now: float) -> Verdict:
    """Return whether a worker reserves jobs."""
    if facts.has_stopped:
        return Verdict(("the worker has stopped",))
    if facts.is_stopping:
        return Verdict(("the worker drains",))
    if facts.started_at is None or facts.looped_at is None:
        return Verdict(("the worker has not started",))
    if facts.is_full and now - facts.looped_at <= RESERVE_SECONDS:
        return Verdict()
    if facts.reserved_at is None or now - facts.reserved_at > RESERVE_SECONDS:
        since = now - (facts.started_at if facts.reserved_at is None else facts.reserved_at)
        if facts.reserved_at is None and since <= RESERVE_SECONDS and not facts.failure:
            return Verdict(("no reserve was answered yet",))
        failure = f": {facts.failure}" if facts.failure else ""
        return Verdict((f"no reserve was answered for {since:.0f} s{failure}",))
    return Verdict()


class Health(WorkerObserver):
    """The health of one worker. Safe to read from any thread."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._facts = Facts()

    @property
    def facts(self) -> Facts:
        """What is known now."""
        return self._facts

    def live(self) -> Verdict:
        """Whether the worker is alive; red if only a restart helps."""
        return judge_live(self._facts, self._now())

    def ready(self) -> Verdict:
        """Whether the worker reserves jobs."""
        return judge_ready(self._facts, self._now())

    def started(self, worker: str, queues: Sequence[str]) -> None:
        """Begin with no facts but the instant of the start."""
        del worker, queues
        self._facts = Facts(started_at=self._now())

    def looped(self, *, full: bool) -> None:
        """Note that the loop has come round, and whether the worker is full."""
        self._learn(looped_at=self._now(), is_full=full)

    def reserved(self, reservations: Sequence[Reservation], seconds: float) -> None:
        """Note that the store has answered a reserve."""
        del reservations, seconds
        now = self._now()
        self._learn(reserved_at=now, answered_at=now, failure="")

    def settled(self, settled: Sequence[Settled]) -> None:
        """Note that the store has answered, unless it failed to settle one of these attempts."""
        if not any(isinstance(one.refused, StoreError) for one in settled):
            self.store_answered()

    def extended(self, leases: int, late_seconds: float) -> None:
        """Note that the store has answered a heartbeat."""
        del leases, late_seconds
        self.store_answered()

    def store_answered(self) -> None:
        """The store has answered a call."""
        self._learn(answered_at=self._now())

    def store_failed(self, task: str, error: StoreError) -> None:
        """Note which call failed, and the type of its error."""
        self._learn(failure=f"{task}: {type(error).__name__}")  # no text of the error: it may name hosts and users

    def stopping(self) -> None:
        """Note that the worker reserves no more, and lets running jobs end."""
        self._learn(is_stopping=True)

    def stopped(self, worker: str, statuses: Mapping[str, int]) -> None:
        """Note that the worker has ended."""
        del worker, statuses
        self._learn(has_stopped=True)

    def _learn(self, **facts: object) -> None:
        with self._lock:
            self._facts = replace(self._facts, **facts)  # type: ignore[arg-type] # fields of Facts
