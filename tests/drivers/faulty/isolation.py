"""Faulty drivers: prefetched jobs, isolated jobs, byte budgets and outages."""

# ruff: noqa: ARG002 - an override keeps the arguments that it does not use

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec import structs
from msgspec.structs import replace

from holdfast.drivers import requests as r
from holdfast.drivers.answers import Reaped, Reserved, Stored
from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.space import Space
from holdfast.errors import LeaseExpired
from holdfast.model.isolation import Isolation
from holdfast.model.job import State
from holdfast.model.lease import Lease, Note
from holdfast.model.transition import Transition
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace


class PrefetchIgnored(FaultyDriver):
    """Every expired lease counts an attempt and a crash, begun or not."""

    def _is_prefetched(self, rows: list[Row], request: r.Reserve) -> bool:
        return False


class StartIgnored(FaultyDriver):
    """A prefetched job never counts as begun."""

    def _extend(self, space: Space, lease: Lease, now: int, expires_at: int, note: Note | None) -> Any:
        return super()._extend(space, lease, now, expires_at, None if note is None else replace(note, started_at=None))


class ExtendBegins(FaultyDriver):
    """Any extend makes a prefetched job begun."""

    def _extend(self, space: Space, lease: Lease, now: int, expires_at: int, note: Note | None) -> Any:
        return super()._extend(space, lease, now, expires_at, replace(note or Note(), started_at=now))


class _PrefetchStaysSpace(FaultySpace):
    def lease(self, row: Row, lease: Lease, worker: str, now: int, *, prefetched: bool) -> None:
        was_prefetched = row.job.meta.get("prefetched") == 1
        super().lease(row, lease, worker, now, prefetched=prefetched or was_prefetched)
        row.job = replace(row.job, meta={**row.job.meta, "prefetched": int(row.prefetched)})


class PrefetchStays(FaultyDriver):
    """A job that was prefetched once counts as prefetched in every later lease."""

    space_type = _PrefetchStaysSpace


class NotBegunIsDead(FaultyDriver):
    """The limits are applied to a lease that had not begun."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Make a job on its last attempt dead."""
        if verb.startswith("expired") and row.job.attempts >= row.job.max_attempts:
            return transition._replace(state=State.DEAD, dead_reason="lease expired", dead_at=now)
        return transition


class NotBegunIsNoSuspect(FaultyDriver):
    """A job whose lease expired before it had begun is forgotten."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Set no mark."""
        return transition._replace(suspect=False)


class ReleaseForgetsSuspect(FaultyDriver):
    """A suspect that is released is none any more."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Drop the mark at a release."""
        return transition._replace(suspect=False) if verb == "release" else transition


class SuspectForever(FaultyDriver):
    """A suspect stays one after an attempt that failed without a crash."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Keep the mark."""
        return transition._replace(suspect=transition.suspect or row.suspect)


class _RequeueKeepsSuspectSpace(FaultySpace):
    def requeue(self, row: Row, now: int) -> bool:
        is_requeued = super().requeue(row, now)
        requeued = self.rows[row.job.id]
        self._leave_lane(requeued)
        requeued.suspect = row.suspect
        self._enter_lane(requeued)
        return is_requeued


class RequeueKeepsSuspect(FaultyDriver):
    """A requeued job keeps its mark."""

    space_type = _RequeueKeepsSuspectSpace


class _WithIsolation(FaultyDriver):
    """Treats one isolation as another."""

    wanted: Isolation
    used: Isolation

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        if rules["isolation"] is self.wanted:
            rules["isolation"] = self.used
        return super()._pick(space, queues, types, limit, now, **rules)


class IsolatedSharesAnswer(_WithIsolation):
    """Isolated jobs are returned together with others."""

    wanted, used = Isolation.ALONE, Isolation.SHARE


class IsolatedNeverReturned(_WithIsolation):
    """A caller that holds no lease gets no isolated job: they starve."""

    wanted, used = Isolation.ALONE, Isolation.SKIP


class HolderGetsIsolated(_WithIsolation):
    """A caller that holds leases gets isolated jobs."""

    wanted, used = Isolation.STOP, Isolation.ALONE


class StopPassesOver(_WithIsolation):
    """Jobs behind an isolated one overtake it."""

    wanted, used = Isolation.STOP, Isolation.SKIP


class SkipStops(_WithIsolation):
    """An isolated job blocks those behind it for a caller that wants to pass over it."""

    wanted, used = Isolation.SKIP, Isolation.STOP


class IsolatedIsPrefetched(FaultyDriver):
    """An isolated job that is returned alone counts as prefetched."""

    def _is_prefetched(self, rows: list[Row], request: r.Reserve) -> bool:
        return request.prefetch


class LastAttemptsAlone(FaultyDriver):
    """Jobs on their last attempt are returned alone."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        rows = super()._pick(space, queues, types, limit, now, **rules)
        has_last = any(row.job.attempts >= row.job.max_attempts - 1 for row in rows)
        return rows[:1] if has_last and rules["isolation"] is not Isolation.SHARE else rows


class LastAttemptsIsolated(FaultyDriver):
    """The reservations of jobs on their last attempt say that these are isolated."""

    def reserve(self, request: r.Reserve) -> Reserved:
        """Mark some."""
        reserved = super().reserve(request)
        marked = [
            replace(one, isolated=one.isolated or one.job.attempts >= one.job.max_attempts)
            for one in reserved.reservations
        ]
        return replace(reserved, reservations=marked)


class MaxBytesIgnored(FaultyDriver):
    """``max_bytes`` is ignored."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        return super()._pick(space, queues, types, limit, now, **{**rules, "max_bytes": None})


class MaxBytesOneTooMany(FaultyDriver):
    """The job that exceeds the budget is returned too."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        rows = super()._pick(space, queues, types, limit, now, **rules)
        if rules["max_bytes"] is None or len(rows) == limit:
            return rows
        return super()._pick(space, queues, types, len(rows) + 1, now, **{**rules, "max_bytes": None})


class LargeJobOvertaken(FaultyDriver):
    """Smaller jobs behind a job that does not fit are returned."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        most = rules["max_bytes"]
        rows = super()._pick(space, queues, types, limit, now, **{**rules, "max_bytes": None})
        return rows if most is None else [row for row in rows if len(row.job.payload) <= most] or rows[:1]


class LargeJobNeverReturned(FaultyDriver):
    """A job that is larger than the budget is never returned."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        rows = super()._pick(space, queues, types, limit, now, **rules)
        most = rules["max_bytes"]
        return [] if most is not None and rows and len(rows[0].job.payload) > most else rows


class BudgetSharesIsolated(FaultyDriver):
    """With a byte budget, isolated jobs are returned together with others."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        if rules["max_bytes"] is not None:
            rules["isolation"] = Isolation.SHARE
        return super()._pick(space, queues, types, limit, now, **rules)


class SharesOneIsolated(FaultyDriver):
    """An answer has one isolated job at most, also for a caller that takes care of them itself."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        rows = super()._pick(space, queues, types, limit, now, **rules)
        isolated = [row for row in rows if row.lane.isolated]
        return [row for row in rows if row not in isolated[1:]]


class OutageCountsCrash(FaultyDriver):
    """The report of an outage ends leases as any reap does."""

    def reap(self, request: r.Reap) -> Reaped:
        """Reap, and say yes."""
        leases = request.leases or ()
        return structs.replace(super().reap(structs.replace(request, leases=None)), reported=[True] * len(leases))


class OutageRefundsAttempt(FaultyDriver):
    """An outage costs no attempt."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Count one attempt fewer."""
        refunds = verb == "expired uncounted" and not transition.suspect and transition.state is State.READY
        return transition._replace(attempts=row.job.attempts - 1) if refunds else transition


class OutageNeverTakesBack(FaultyDriver):
    """A crash that a reap has counted stays."""

    def reap(self, request: r.Reap) -> Reaped:
        """Report only leases that nobody reaped."""
        if request.leases is None:
            return super().reap(request)
        now = self._now(request)
        is_unreaped = [isinstance(self._space.refusal(lease, now), LeaseExpired) for lease in request.leases]
        given = [lease for lease, unreaped in zip(request.leases, is_unreaped, strict=True) if unreaped]
        answers = iter(super().reap(structs.replace(request, leases=given)).reported)
        return Reaped(0, reported=[next(answers) if unreaped else False for unreaped in is_unreaped])


class OutageReportedTwice(FaultyDriver):
    """Every repeated report takes another crash back."""

    def reap(self, request: r.Reap) -> Reaped:
        """Take a crash back for every lease, again and again."""
        reaped = super().reap(request)
        for lease, answer in zip(request.leases or (), reaped.reported, strict=True):
            row = self._space.rows.get(lease.job_id)
            if not answer and row is not None and row.last_token == lease.token and not row.job.state.has_ended:
                self._space.take_crash_back(row)
        return reaped


class OutageOfAnyLease(FaultyDriver):
    """The report does not look at the token."""

    def reap(self, request: r.Reap) -> Reaped:
        """Use the token that the row has."""
        if request.leases is None:
            return super().reap(request)
        rows = [self._space.rows.get(lease.job_id) for lease in request.leases]
        given = [
            lease if row is None else replace(lease, token=row.token or row.last_token or "")
            for lease, row in zip(request.leases, rows, strict=True)
        ]
        return super().reap(structs.replace(request, leases=given))


class OutageRevivesDead(FaultyDriver):
    """The report claims success for a job that has ended."""

    def reap(self, request: r.Reap) -> Reaped:
        """Say yes whenever the last token is equal."""
        reaped, leases = super().reap(request), request.leases or ()
        rows = [self._space.rows.get(lease.job_id) for lease in leases]
        reported = [
            answer or (row is not None and row.job.state is State.DEAD and row.last_token == lease.token)
            for lease, row, answer in zip(leases, rows, reaped.reported, strict=True)
        ]
        return structs.replace(reaped, reported=reported)


class OutageOfAnEarlierLife(FaultyDriver):
    """The report takes a crash back from a requeued job, which has none."""

    def reap(self, request: r.Reap) -> Reaped:
        """Count one crash fewer than none."""
        leases = request.leases or ()
        rows = [self._space.rows.get(lease.job_id) for lease in leases]
        reaped = super().reap(request)
        for lease, row in zip(leases, rows, strict=True):
            if row is not None and row.last_token == lease.token and row.job.attempts == 0 and not row.suspect:
                row.job = replace(row.job, crashes=-1)
        return reaped


class LeasedEnqueueBegins(FaultyDriver):
    """Leases that enqueue grants count as begun."""

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Clear the mark."""
        stored = super().enqueue(request)
        for reservation in stored.reservations:
            self._space.rows[reservation.job.id].prefetched = False
        return stored


class LeasedEnqueueBeginsLastAttempts(FaultyDriver):
    """Leases that enqueue grants to jobs with one attempt count as begun."""

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Clear the mark of some."""
        stored = super().enqueue(request)
        for reservation in stored.reservations:
            if reservation.job.max_attempts == 1:
                self._space.rows[reservation.job.id].prefetched = False
        return stored


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    PrefetchIgnored,
    StartIgnored,
    ExtendBegins,
    PrefetchStays,
    NotBegunIsDead,
    NotBegunIsNoSuspect,
    ReleaseForgetsSuspect,
    SuspectForever,
    RequeueKeepsSuspect,
    IsolatedSharesAnswer,
    IsolatedNeverReturned,
    HolderGetsIsolated,
    StopPassesOver,
    SkipStops,
    IsolatedIsPrefetched,
    LastAttemptsAlone,
    LastAttemptsIsolated,
    MaxBytesIgnored,
    MaxBytesOneTooMany,
    LargeJobOvertaken,
    LargeJobNeverReturned,
    BudgetSharesIsolated,
    SharesOneIsolated,
    OutageCountsCrash,
    OutageRefundsAttempt,
    OutageNeverTakesBack,
    OutageReportedTwice,
    OutageOfAnyLease,
    OutageRevivesDead,
    OutageOfAnEarlierLife,
    LeasedEnqueueBegins,
    LeasedEnqueueBeginsLastAttempts,
)
