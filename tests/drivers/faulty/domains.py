"""Faulty drivers: domains."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from holdfast.drivers import requests as r
from holdfast.drivers.answers import Inspection
from holdfast.drivers.memory.domains import Place
from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.space import Space
from holdfast.model.job import JobRecord, State
from holdfast.model.transition import Transition
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace


class _DomainsIgnoredSpace(FaultySpace):
    def place_of(self, job: JobRecord) -> Place | None:
        del job
        return None


class DomainsIgnored(FaultyDriver):
    """Two jobs of a domain run at the same time."""

    space_type = _DomainsIgnoredSpace


class _DeadHeadKeepsTurnSpace(FaultySpace):
    def _pass_turn(self, row: Row) -> None:
        if row.job.state is not State.DEAD:
            super()._pass_turn(row)


class DeadHeadKeepsTurn(FaultyDriver):
    """A dead head keeps its turn: its domain is blocked forever."""

    space_type = _DeadHeadKeepsTurnSpace


class _CancelledHeadKeepsTurnSpace(FaultySpace):
    def _pass_turn(self, row: Row) -> None:
        if row.job.state is not State.CANCELLED:
            super()._pass_turn(row)


class CancelledHeadKeepsTurn(FaultyDriver):
    """A cancelled head keeps its turn: its domain is blocked forever."""

    space_type = _CancelledHeadKeepsTurnSpace


class _TurnNeverPassedSpace(FaultySpace):
    is_passing = False

    def _pass_turn(self, row: Row) -> None:
        self.is_passing = True
        super()._pass_turn(row)
        self.is_passing = False

    def assign_turn(self, place: Place) -> None:
        if not self.is_passing:
            super().assign_turn(place)


class TurnNeverPassed(FaultyDriver):
    """The end of a job does not give the turn to the next job of its domain."""

    space_type = _TurnNeverPassedSpace


class _HeadInBackoffLosesTurnSpace(FaultySpace):
    def end(self, row: Row, transition: Transition, verb: str, now: int, started_at: int | None = None) -> None:
        super().end(row, transition, verb, now, started_at)
        place = self.place_of(row.job)
        if place is not None and row.job.state is State.READY and len(self.domains[place].jobs) > 1:
            self._leave_lane(row)
            self.domains[place].turn = self.domains[place].jobs[1][2]
            self._enter_lane(self.rows[self.domains[place].jobs[1][2]])


class HeadInBackoffLosesTurn(FaultyDriver):
    """A head in backoff loses its turn to the next job of its domain."""

    space_type = _HeadInBackoffLosesTurnSpace


class _DomainsSharedByQueuesSpace(FaultySpace):
    def place_of(self, job: JobRecord) -> Place | None:
        return None if job.domain is None else ("", job.domain)


class DomainsSharedByQueues(FaultyDriver):
    """A domain contains the jobs of all queues."""

    space_type = _DomainsSharedByQueuesSpace


class RequeuedKeepsArrival(FaultyDriver):
    """A requeued job reports the place of its first arrival, although its domain runs it last."""

    def inspect(self, request: r.Inspect) -> dict[str, Inspection]:
        """Return places by id: ids grow with the time of the first enqueue."""
        found = super().inspect(request)
        return {job_id: replace(found[job_id], arrival=place) for place, job_id in enumerate(sorted(found))}


class WaitingJobTakesAPlace(FaultyDriver):
    """A job that waits for its turn counts against the limit of a reserve that passes over it."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        rows = super()._pick(space, queues, types, limit, now, **rules)
        waiting = [row for row in space.rows.values() if row.job.state is State.READY and not space.has_turn(row)]
        passed_over = [row for row in waiting if rows and row.seq < rows[-1].seq]
        return rows[: max(0, limit - len(passed_over))]


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    DomainsIgnored,
    DeadHeadKeepsTurn,
    CancelledHeadKeepsTurn,
    TurnNeverPassed,
    HeadInBackoffLosesTurn,
    DomainsSharedByQueues,
    RequeuedKeepsArrival,
    WaitingJobTakesAPlace,
)
