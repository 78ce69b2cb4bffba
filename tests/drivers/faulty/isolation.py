"""Faulty drivers: prefetched jobs, isolated jobs, byte budgets and outages."""

# ruff: noqa: ARG002 - an override keeps the arguments that it does not use

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.space import Space
from holdfast.errors import LeaseExpired
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.transition import Transition
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace


class PrefetchIgnored(FaultyDriver):
    """Every expired lease counts an attempt and a crash, begun or not."""

    def _is_prefetched(self, rows: list[Row], isolation: Isolation, *, prefetch: bool) -> bool:
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

    def _is_prefetched(self, rows: list[Row], isolation: Isolation, *, prefetch: bool) -> bool:
        return prefetch


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

    def reserve(self, queues: Sequence[str], **options: Any) -> list[Reservation]:
        """Mark some."""
        return [
            replace(one, isolated=one.isolated or one.job.attempts >= one.job.max_attempts)
            for one in super().reserve(queues, **options)
        ]


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

    def report_outage(self, leases: Sequence[Lease], *, now: int | None = None) -> list[bool]:
        """Reap, and say yes."""
        self.reap(now=now)
        return [True] * len(leases)


class OutageRefundsAttempt(FaultyDriver):
    """An outage costs no attempt."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Count one attempt fewer."""
        refunds = verb == "expired uncounted" and not transition.suspect and transition.state is State.READY
        return transition._replace(attempts=row.job.attempts - 1) if refunds else transition


class OutageNeverTakesBack(FaultyDriver):
    """A crash that a reap has counted stays."""

    def report_outage(self, leases: Sequence[Lease], *, now: int | None = None) -> list[bool]:
        """Report only leases that nobody reaped."""
        at = self._validation.now(now)
        is_unreaped = [isinstance(self._space.refusal(lease, at), LeaseExpired) for lease in leases]
        given = [lease for lease, unreaped in zip(leases, is_unreaped, strict=True) if unreaped]
        answers = iter(super().report_outage(given, now=now))
        return [next(answers) if unreaped else False for unreaped in is_unreaped]


class OutageReportedTwice(FaultyDriver):
    """Every repeated report takes another crash back."""

    def report_outage(self, leases: Sequence[Lease], *, now: int | None = None) -> list[bool]:
        """Take a crash back for every lease, again and again."""
        answers = super().report_outage(leases, now=now)
        for lease, answer in zip(leases, answers, strict=True):
            row = self._space.rows.get(lease.job_id)
            if not answer and row is not None and row.last_token == lease.token and not row.job.state.has_ended:
                self._space.take_crash_back(row)
        return answers


class OutageOfAnyLease(FaultyDriver):
    """The report does not look at the token."""

    def report_outage(self, leases: Sequence[Lease], *, now: int | None = None) -> list[bool]:
        """Use the token that the row has."""
        rows = [self._space.rows.get(lease.job_id) for lease in leases]
        given = [
            lease if row is None else replace(lease, token=row.token or row.last_token or "")
            for lease, row in zip(leases, rows, strict=True)
        ]
        return super().report_outage(given, now=now)


class OutageRevivesDead(FaultyDriver):
    """The report claims success for a job that has ended."""

    def report_outage(self, leases: Sequence[Lease], *, now: int | None = None) -> list[bool]:
        """Say yes whenever the last token is equal."""
        answers = super().report_outage(leases, now=now)
        rows = [self._space.rows.get(lease.job_id) for lease in leases]
        return [
            answer or (row is not None and row.job.state is State.DEAD and row.last_token == lease.token)
            for lease, row, answer in zip(leases, rows, answers, strict=True)
        ]


class OutageOfAnEarlierLife(FaultyDriver):
    """The report takes a crash back from a requeued job, which has none."""

    def report_outage(self, leases: Sequence[Lease], *, now: int | None = None) -> list[bool]:
        """Count one crash fewer than none."""
        rows = [self._space.rows.get(lease.job_id) for lease in leases]
        answers = super().report_outage(leases, now=now)
        for lease, row in zip(leases, rows, strict=True):
            if row is not None and row.last_token == lease.token and row.job.attempts == 0 and not row.suspect:
                row.job = replace(row.job, crashes=-1)
        return answers


class LeasedEnqueueBegins(FaultyDriver):
    """Leases that enqueue grants count as begun."""

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """Clear the mark."""
        answers, reservations = super().enqueue_leased(jobs, lease_for=lease_for, worker=worker, now=now)
        for reservation in reservations:
            self._space.rows[reservation.job.id].prefetched = False
        return answers, reservations


class LeasedEnqueueBeginsLastAttempts(FaultyDriver):
    """Leases that enqueue grants to jobs with one attempt count as begun."""

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """Clear the mark of some."""
        answers, reservations = super().enqueue_leased(jobs, lease_for=lease_for, worker=worker, now=now)
        for reservation in reservations:
            if reservation.job.max_attempts == 1:
                self._space.rows[reservation.job.id].prefetched = False
        return answers, reservations


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
