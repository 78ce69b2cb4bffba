"""Drivers that get the order wrong: lanes, turns, instants."""

# ruff: noqa: ARG002 - a bug looks at only a part of what it is given
from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.space import Space
from holdfast.model.job import JobRecord, State
from holdfast.model.order import pick
from holdfast.model.transition import Transition
from holdfast.testing.drivers.faulty.faulty_driver import BentSpace, Faulty


class PriorityReversed(Faulty):
    """Priority 0 comes first."""

    def _pick(self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int) -> list[Row]:
        capacity = space.capacity(queues, now)
        lanes = [
            (lane._replace(priority=9 - lane.priority), space.due(lane, now))
            for lane in space.lanes
            if lane.queue in queues and (types is None or lane.type in types)
        ]
        places = pick(lanes, limit=limit, capacity=capacity)
        for key, used in capacity.limits.items():
            space.buckets[key] = used.bucket_after(now)
        return [space.rows[job_id] for _, (_, _, job_id) in places]


class QueueByQueue(Faulty):
    """Queues are emptied one after the other, in the order in which they are named."""

    def _pick(self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int) -> list[Row]:
        rows: list[Row] = []
        for queue in queues:
            if len(rows) < limit:
                rows += super()._pick(space, [queue], types, limit - len(rows), now)
        return rows


class FiltersAfterPicking(Faulty):
    """Types are filtered after the limit: a backlog of unknown types holds everybody up."""

    def _pick(self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int) -> list[Row]:
        rows = super()._pick(space, queues, None, limit, now)
        return [row for row in rows if types is None or row.job.type in types]


class IgnoresSchedules(Faulty):
    """A scheduled job is given as soon as it is there."""

    def _pick(self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int) -> list[Row]:
        found = super()._pick(space, queues, types, limit, now)
        return found or super()._pick(space, queues, types, limit, 2 * now)


class RetryLosesRunAt(Faulty):
    """A retried job is due at once, whatever its backoff."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """Due now."""
        if verb == "retry" and outcome.state is State.READY:
            return outcome._replace(run_at=None, available_at=now)
        return outcome


class RetryKeepsItsPlace(Faulty):
    """A retried job goes in front of those who came before its retry."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """Available since it first was."""
        if verb == "retry" and outcome.run_at is None:
            return outcome._replace(available_at=row.available_at)
        return outcome


class ReleaseLosesItsPlace(Faulty):
    """A released job goes to the end of the line."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """Available from now."""
        if verb == "release" and outcome.available_at == row.available_at:
            return outcome._replace(available_at=now)
        return outcome


class ReapedJobsComeLast(Faulty):
    """A reaped job stands at the instant of its reaping, not at that of its expiry."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """Available from now."""
        if verb == "expired" and outcome.state is State.READY:
            return outcome._replace(available_at=now)
        return outcome


class ExpiryKeepsRunAt(Faulty):
    """An expired job keeps the run_at it once had."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """The run_at as it was."""
        return outcome._replace(run_at=row.job.run_at) if verb == "expired" else outcome


class _FrontSpace(BentSpace):
    def requeue(self, row: Row, now: int) -> None:
        super().requeue(row, now)
        fresh = self.rows[row.job.id]
        self._leave_lane(fresh)
        fresh.available_at = row.available_at
        self._enter_lane(fresh)


class RequeueJumpsTheLine(Faulty):
    """A requeued job stands where it stood before it died."""

    rows = _FrontSpace


class _ReversedSpace(BentSpace):
    def expired(self, queues: list[str], now: int) -> list[Row]:
        return super().expired(queues, now)[::-1]


class ReapsYoungestFirst(Faulty):
    """A bounded reap leaves the oldest expiries for later."""

    rows = _ReversedSpace


class _CrowdedSpace(BentSpace):
    def has_turn(self, row: Row) -> bool:
        del row
        return True

    def _pass_turn(self, row: Row) -> None:
        """Everybody has the turn already."""


class TwoOfADomain(Faulty):
    """Jobs of a domain run side by side."""

    rows = _CrowdedSpace


class _StuckSpace(BentSpace):
    def _pass_turn(self, row: Row) -> None:
        if row.job.state is not State.DEAD:
            super()._pass_turn(row)


class TurnLostOnFailure(Faulty):
    """A dead head keeps its turn: its domain never goes on."""

    rows = _StuckSpace


class _DeafSpace(BentSpace):
    def _pass_turn(self, row: Row) -> None:
        if row.job.state is not State.CANCELLED:
            super()._pass_turn(row)


class TurnLostOnCancel(Faulty):
    """A cancelled head keeps its turn: its domain never goes on."""

    rows = _DeafSpace


class _OvertakingSpace(BentSpace):
    def end(self, row: Row, outcome: Transition, verb: str, now: int, started_at: int | None = None) -> None:
        super().end(row, outcome, verb, now, started_at)
        if row.job.domain is not None and row.job.state is State.READY:
            self._leave_lane(row)
            line = self.domains[row.job.queue, row.job.domain]
            line.append(line.pop(0))
            self._enter_lane(self.rows[line[0]])


class OvertakesInBackoff(Faulty):
    """A head that waits for its backoff is overtaken by the rest of its domain."""

    rows = _OvertakingSpace


class _SharedDomains(BentSpace):
    def add(self, job: JobRecord, now: int) -> Row:
        domain = job.domain
        row = super().add(replace(job, domain=None), now)
        row.job = job
        if domain is not None:
            self._remove_from_lane(row)
            self.domains["", domain].append(job.id)
            self._enter_lane(row)
        return row

    def _remove_from_lane(self, row: Row) -> None:
        self.lanes[row.lane].remove((row.available_at, row.seq, row.job.id))

    def has_turn(self, row: Row) -> bool:
        return row.job.domain is None or self.domains["", row.job.domain][0] == row.job.id

    def _pass_turn(self, row: Row) -> None:
        if row.job.domain is None:
            return
        line = self.domains["", row.job.domain]
        was_head = line[0] == row.job.id
        line.remove(row.job.id)
        if line and was_head:
            self._enter_lane(self.rows[line[0]])


class DomainsOverQueues(Faulty):
    """A domain is one line over all queues."""

    rows = _SharedDomains


FAULTY: tuple[type[Faulty], ...] = (
    PriorityReversed,
    QueueByQueue,
    FiltersAfterPicking,
    IgnoresSchedules,
    RetryLosesRunAt,
    RetryKeepsItsPlace,
    ReleaseLosesItsPlace,
    ReapedJobsComeLast,
    ExpiryKeepsRunAt,
    RequeueJumpsTheLine,
    ReapsYoungestFirst,
    TwoOfADomain,
    TurnLostOnFailure,
    TurnLostOnCancel,
    OvertakesInBackoff,
    DomainsOverQueues,
)
