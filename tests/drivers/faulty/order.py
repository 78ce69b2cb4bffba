"""Faulty drivers: the order in which jobs are reserved."""

# ruff: noqa: ARG002 - an override keeps the arguments that it does not use

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.space import Space
from holdfast.model.job import State
from holdfast.model.order import pick
from holdfast.model.transition import Transition
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace


class PriorityReversed(FaultyDriver):
    """Priority 0 is reserved first."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        capacity = space.capacity(queues, now)
        lanes = [
            (lane._replace(priority=9 - lane.priority), space.due(lane, now))
            for lane in space.lanes
            if lane.queue in queues and (types is None or lane.type in types)
        ]
        places = pick(lanes, limit=limit, capacity=capacity, isolation=rules["isolation"])
        for key, used in capacity.limits.items():
            space.buckets[key] = used.bucket_after(now)
        return [space.rows[job_id] for _, (_, _, job_id) in places]


class QueuesInOrderOfCall(FaultyDriver):
    """Queues are emptied one after the other, in the order of the call."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        rows: list[Row] = []
        for queue in queues:
            if len(rows) < limit:
                rows += super()._pick(space, [queue], types, limit - len(rows), now, **rules)
        return rows


class TypesFilteredAfterLimit(FaultyDriver):
    """Types are filtered after the limit: jobs of other types block the requested types."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        rows = super()._pick(space, queues, None, limit, now, **rules)
        return [row for row in rows if types is None or row.job.type in types]


class ScheduleIgnored(FaultyDriver):
    """A scheduled job is reserved before it is due."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        due_rows = super()._pick(space, queues, types, limit, now, **rules)
        return due_rows or super()._pick(space, queues, types, limit, 2 * now, **rules)


class RetryIgnoresDelay(FaultyDriver):
    """A retried job is due at once, with any delay."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Make the job due now."""
        if verb == "retry" and transition.state is State.READY:
            return transition._replace(run_at=None, available_at=now)
        return transition


class RetryKeepsPlace(FaultyDriver):
    """A retried job keeps its old place in the order."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Keep available_at."""
        if verb == "retry" and transition.run_at is None:
            return transition._replace(available_at=row.available_at)
        return transition


class _RetriedJobLostSpace(FaultySpace):
    def end(self, row: Row, transition: Transition, verb: str, now: int, started_at: int | None = None) -> None:
        super().end(row, transition, verb, now, started_at)
        if verb == "retry" and row.job.state is State.READY:
            self._leave_lane(row)

    def _leave_lane(self, row: Row) -> None:
        if (row.available_at, row.seq, row.job.id) in self.lanes[row.lane]:
            super()._leave_lane(row)


class RetriedJobLost(FaultyDriver):
    """A retried job is ready but is never reserved."""

    space_type = _RetriedJobLostSpace


class ReleaseLosesPlace(FaultyDriver):
    """A released job goes to the end of the queue."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Set available_at to now."""
        if verb == "release" and transition.available_at == row.available_at:
            return transition._replace(available_at=now)
        return transition


class ReapLosesPlace(FaultyDriver):
    """A reaped job is ordered by the instant of the reap, not of the expiry."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Set available_at to now."""
        if verb == "expired" and transition.state is State.READY:
            return transition._replace(available_at=now)
        return transition


class ExpiryKeepsRunAt(FaultyDriver):
    """A job whose lease expired keeps its old run_at."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Keep run_at."""
        return transition._replace(run_at=row.job.run_at) if verb == "expired" else transition


class _RequeueKeepsPlaceSpace(FaultySpace):
    def requeue(self, row: Row, now: int) -> bool:
        is_requeued = super().requeue(row, now)
        requeued = self.rows[row.job.id]
        self._leave_lane(requeued)
        requeued.available_at = row.available_at
        self._enter_lane(requeued)
        return is_requeued


class RequeueKeepsPlace(FaultyDriver):
    """A requeued job keeps its old place in the order."""

    space_type = _RequeueKeepsPlaceSpace


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    PriorityReversed,
    QueuesInOrderOfCall,
    TypesFilteredAfterLimit,
    ScheduleIgnored,
    RetryIgnoresDelay,
    RetryKeepsPlace,
    RetriedJobLost,
    ReleaseLosesPlace,
    ReapLosesPlace,
    ExpiryKeepsRunAt,
    RequeueKeepsPlace,
)
