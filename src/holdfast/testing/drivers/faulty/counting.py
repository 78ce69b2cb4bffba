"""Drivers that count wrong: attempts, crashes, budgets, limits, retention."""

# ruff: noqa: ARG002 - a bug looks at only a part of what it is given
from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from holdfast.clock import DAY
from holdfast.drivers.contract import REAP_LIMIT, QueueCounts, Trimmed
from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.space import Space
from holdfast.errors import LeaseError
from holdfast.model import transition
from holdfast.model.job import State
from holdfast.model.lease import Lease, Reservation
from holdfast.model.order import Capacity
from holdfast.model.settlement import Settlement
from holdfast.model.transition import Transition
from holdfast.testing.drivers.faulty.faulty_driver import BentSpace, Faulty


class CrashesToldAreNotCounted(Faulty):
    """A retry that tells of a crash is like any other."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """No crashes after a retry."""
        return outcome._replace(crashes=0) if verb == "retry" else outcome


class _UncountedSpace(BentSpace):
    def lease(self, row: Row, lease: Lease, worker: str, now: int) -> None:
        attempts = row.job.attempts
        super().lease(row, lease, worker, now)
        row.job = replace(row.job, attempts=attempts)


class AttemptsUncounted(Faulty):
    """A reservation counts no attempt: a job that kills its worker runs for ever."""

    rows = _UncountedSpace


class CountsFailuresOnly(Faulty):
    """An expired lease gives its attempt back."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """One attempt fewer after an expiry."""
        return outcome._replace(attempts=row.job.attempts - 1) if verb == "expired" else outcome


class OneRunMore(Faulty):
    """``max_attempts`` is taken for the number of retries."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """Ready where it should be dead, once."""
        if outcome.dead_reason == transition.ATTEMPTS_EXHAUSTED and row.job.attempts == row.job.max_attempts:
            return outcome._replace(state=State.READY, dead_reason=None, dead_at=None, available_at=now)
        return outcome


class OneRunLess(Faulty):
    """The last attempt is never given."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """Dead where one attempt is left."""
        if verb == "retry" and row.job.attempts == row.job.max_attempts - 1:
            return outcome._replace(state=State.DEAD, dead_reason=transition.ATTEMPTS_EXHAUSTED, dead_at=now)
        return outcome


class CrashesForEver(Faulty):
    """A retry does not end the crashes in a row."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """The crashes as they were."""
        return outcome._replace(crashes=row.job.crashes) if verb == "retry" else outcome


class ReleaseForgivesCrashes(Faulty):
    """A release ends the crashes in a row."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """No crashes after a release."""
        return outcome._replace(crashes=0) if verb == "release" else outcome


class PoisonIgnored(Faulty):
    """A job may crash its worker as often as it has attempts."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """Ready where it should be dead."""
        if outcome.dead_reason == transition.POISON:
            return outcome._replace(state=State.READY, dead_reason=None, dead_at=None, available_at=now)
        return outcome


class ReleaseCharged(Faulty):
    """A release keeps its attempt counted."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """The attempts as they were."""
        return outcome._replace(attempts=row.job.attempts) if verb == "release" else outcome


class ReleaseUnbounded(Faulty):
    """The budget of releases starts anew with each of them."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """Nothing spent so far."""
        return outcome._replace(released_for=0)


class DropsTheExhausted(Faulty):
    """A job without attempts left is gone instead of dead."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        answer = super()._settle(space, settlement, now)
        row = space.rows.get(settlement.lease.job_id)
        if row is not None and row.job.dead_reason == transition.ATTEMPTS_EXHAUSTED:
            del space.rows[row.job.id]
        return answer


class LosesErrors(Faulty):
    """What went wrong is not kept with the job."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """No last error."""
        return outcome._replace(last_error="", failed_at=None)


class _GenerousSpace(BentSpace):
    def requeue(self, row: Row, now: int) -> None:
        attempts = row.job.attempts
        super().requeue(row, now)
        fresh = self.rows[row.job.id]
        fresh.job = replace(fresh.job, attempts=attempts)


class RequeueKeepsAttempts(Faulty):
    """A requeued job dies of its old attempts."""

    rows = _GenerousSpace


class RateLeaks(Faulty):
    """Every call starts with a full bucket."""

    def _pick(self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int) -> list[Row]:
        space.buckets.clear()
        return super()._pick(space, queues, types, limit, now)


class RateChargesTheAsking(Faulty):
    """Asking in vain uses up the rate."""

    def _pick(self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int) -> list[Row]:
        found = super()._pick(space, queues, types, limit, now)
        for key, settings in space.settings.items():
            if not found and key[0] in queues and settings.rate is not None:
                space.buckets[key] = settings.bucket_after(1, space.buckets.get(key), now)
        return found


class _TypelessSpace(BentSpace):
    def capacity(self, queues: list[str], now: int) -> Capacity:
        capacity = super().capacity(queues, now)
        return Capacity({key: limit for key, limit in capacity.limits.items() if key[1] is None})


class TypeLimitsIgnored(Faulty):
    """Settings of a type are kept and not honoured."""

    rows = _TypelessSpace


class _ForgetfulSpace(BentSpace):
    def capacity(self, queues: list[str], now: int) -> Capacity:
        leased, self.leases = self.leases, self.leases.copy()
        self.leases.clear()
        try:
            return super().capacity(queues, now)
        finally:
            self.leases = leased


class MaxInflightPerCall(Faulty):
    """``max_inflight`` bounds one call, not what is in flight."""

    rows = _ForgetfulSpace


class _RestlessSpace(BentSpace):
    def capacity(self, queues: list[str], now: int) -> Capacity:
        settings, self.settings = (
            self.settings,
            {key: replace(value, paused_until=None) for key, value in self.settings.items()},
        )
        try:
            return super().capacity(queues, now)
        finally:
            self.settings = settings


class PauseIgnored(Faulty):
    """A paused queue goes on."""

    rows = _RestlessSpace


class CountsForgetScheduled(Faulty):
    """Scheduled jobs are counted as ready."""

    def counts(self, queues: Sequence[str] | None = None, *, now: int | None = None) -> list[QueueCounts]:
        """Two numbers made one."""
        rows = super().counts(queues, now=now)
        return [replace(row, ready=row.ready + row.scheduled, scheduled=0) for row in rows]


class TrimsDeadLetters(Faulty):
    """Retention removes dead letters."""

    def trim(self, **options: Any) -> Trimmed:
        """Everything that has ended, dead or not."""
        trimmed = super().trim(**options)
        before = self._validation.now(options.get("now")) - options.get("ended_for", 7 * DAY)
        old = [row for row in self._space.rows.values() if row.ended_at is not None and row.ended_at <= before]
        for row in old:
            del self._space.rows[row.job.id]
        return replace(trimmed, jobs=trimmed.jobs + len(old))


class ReapsWithoutBound(Faulty):
    """One reserve pays for a whole outage."""

    def reserve(self, queues: Sequence[str], **options: Any) -> list[Reservation]:
        """End everything that has expired first."""
        while super().reap(queues, now=options.get("now")) == REAP_LIMIT:
            pass
        return super().reserve(queues, **options)


class ReapsEveryQueue(Faulty):
    """A reap of some queues ends leases in all of them."""

    def reap(self, queues: Sequence[str] | None = None, **options: Any) -> int:
        """Reap, without looking at the queues."""
        self._validation.check_reap(queues, None, 1)
        return super().reap(None, **options)


class ReapsOtherWorkers(Faulty):
    """One dead worker takes the leases of all others with it."""

    def reap(self, queues: Sequence[str] | None = None, **options: Any) -> int:
        """Reap for every worker that has a name."""
        if options.get("worker"):
            for other in {row.worker for row in self._space.rows.values() if row.worker}:
                super().reap(queues, **{**options, "worker": other})
        return super().reap(queues, **options)


FAULTY: tuple[type[Faulty], ...] = (
    AttemptsUncounted,
    CrashesToldAreNotCounted,
    CountsFailuresOnly,
    OneRunMore,
    OneRunLess,
    CrashesForEver,
    ReleaseForgivesCrashes,
    PoisonIgnored,
    ReleaseCharged,
    ReleaseUnbounded,
    DropsTheExhausted,
    LosesErrors,
    RequeueKeepsAttempts,
    RateLeaks,
    RateChargesTheAsking,
    TypeLimitsIgnored,
    MaxInflightPerCall,
    PauseIgnored,
    CountsForgetScheduled,
    TrimsDeadLetters,
    ReapsWithoutBound,
    ReapsEveryQueue,
    ReapsOtherWorkers,
)
