"""Checks the laws from outside: it sees every call, every answer and the ledger, and raises ``Violation``.

The checker does not model the queue. It does not know which job comes next, only what must never happen. It checks most
laws after each call, so that the broken call is known; ``check_final_state`` checks the whole history at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import NoneType

from holdfast.clock import DAY
from holdfast.drivers.store import Store
from holdfast.errors import JobNotInflight, LeaseError, LeaseExpired, LeaseMismatch
from holdfast.model.domain import ResumeAction
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Reservation
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.settlement import Settlement
from tests.drivers.simulation.crash_accounting import count_ending, wrong_reservation
from tests.drivers.simulation.domain_rules import DomainRules, Place
from tests.drivers.simulation.tracked import TrackedJob, TrackedLease

_ENDINGS_OF_VERB = {
    "ack": {Ending.ACKED},
    "retry": {Ending.RETRIED, Ending.CANCELLED},
    "fail": {Ending.FAILED, Ending.CANCELLED},
    "release": {Ending.RELEASED, Ending.CANCELLED},
}
_ENDINGS_WITHOUT_LEASE = {Ending.CANCELLED, Ending.REQUEUED, Ending.PURGED}


class Violation(AssertionError):
    """A law was broken."""


class LawChecker:
    """One ``check_`` method per call of the contract, called after the call, in order."""

    def __init__(self) -> None:
        self.jobs: dict[str, TrackedJob] = {}
        self.leases: list[TrackedLease] = []  # every lease ever returned
        self.running: dict[int, TrackedLease] = {}  # leases without a ledger row, by fence
        self.domains = DomainRules()
        self.keys: dict[tuple[str, str], tuple[str, int]] = {}  # (queue, key) -> job id, end of the window
        self.paused_until: dict[str, int] = {}
        self.highest_fence = 0

    # Producers ------------------------------------------------------------------------------------------------------

    def check_enqueue(self, records: Sequence[JobRecord], answers: Sequence[Enqueued], now: int) -> None:
        """A known id, a known key or a known offset returns the existing job (L6, L11, L12)."""
        if len(answers) != len(records):
            raise Violation("enqueue did not answer every record")
        for record, answer in zip(records, answers, strict=True):
            allowed = self._allowed_answers(record, now)
            if (answer.id, answer.existed, answer.past) not in allowed:
                raise Violation(f"{record.id}: wanted one of {allowed}, got {answer}")
            if not answer.existed:
                self.jobs[record.id] = TrackedJob(record)
                self.domains.add(record)
                if record.idempotency_key:
                    self.keys[record.queue, record.idempotency_key] = (record.id, now + DAY)

    def _allowed_answers(self, record: JobRecord, now: int) -> list[tuple[str, bool, bool]]:
        """Return what enqueue may answer: (id, existed, past)."""
        if record.id in self.jobs and self.jobs[record.id].state is not None:
            return [(record.id, True, False)]
        by_offset = self._answer_by_offset(record)
        holder_id, until = self.keys.get((record.queue, record.idempotency_key or ""), ("", 0))
        if not holder_id:
            return [by_offset]
        holder, by_key = self.jobs[holder_id], (holder_id, True, False)
        if now < until or (holder.is_open and not holder.was_requeued):
            return [by_key]
        # The holder was requeued after its window ended: the law does not say whether it has its key again.
        return [by_key, by_offset] if holder.is_open else [by_offset]

    def _answer_by_offset(self, record: JobRecord) -> tuple[str, bool, bool]:
        """Return the answer for a record whose id and key are new."""
        known_id = self.domains.known_job(record)
        if known_id is None:
            return record.id, False, False
        known = self.jobs[known_id]
        return (record.id, True, True) if known.state is None else (known_id, True, not known.is_open)

    def check_reserve(
        self,
        worker: str,
        queues: Sequence[str],
        reservations: Sequence[Reservation],
        rows: Sequence[LedgerRow],
        now: int,
        *,
        isolation: Isolation,
        prefetch: bool,
    ) -> None:
        """Each job is ready, due, first in its domain and has attempts left; its fence is the highest.

        An isolated job is alone in its answer, and its worker holds no lease (L7).
        """
        self.check_reap(rows, now, queues=queues)
        highest_before = self.highest_fence
        for reservation in reservations:
            job, lease = reservation.job, reservation.lease
            if lease.fence <= highest_before or lease.fence in self.running:
                raise Violation(f"fence {lease.fence} is not new: {highest_before} came before")
            if lease.expires_at <= now:
                raise Violation(f"fence {lease.fence} was already expired when it was returned")
            tracked = self._known_job(job.id)
            is_shared = len(reservations) > 1
            reason = self._reason_not_to_reserve(job, tracked, now) or wrong_reservation(
                tracked, reservation, isolation, is_shared=is_shared
            )
            if reason is not None:
                raise Violation(f"{job.id} under fence {lease.fence} {reason}")
            is_alone = tracked.must_run_alone and isolation is not Isolation.SHARE
            tracked.state = State.INFLIGHT
            tracked.attempts += 1
            tracked.last_lease = TrackedLease(job, lease, worker, now, lease.expires_at)
            tracked.last_lease.is_prefetched = prefetch and not is_alone
            self.leases.append(tracked.last_lease)
            self.running[lease.fence] = tracked.last_lease
            self.highest_fence = max(self.highest_fence, lease.fence)

    def _reason_not_to_reserve(self, job: JobRecord, tracked: TrackedJob, now: int) -> str | None:
        if tracked.state is not State.READY:
            return f"was reserved while it was {tracked.state}"
        if not 1 <= job.attempts <= tracked.record.max_attempts:
            return f"is on attempt {job.attempts} of {tracked.record.max_attempts}"
        if job.run_at is not None and job.run_at > now:
            return f"is not due before {job.run_at}"
        if now < self.paused_until.get(job.queue, 0):
            return "was reserved from a paused queue"
        return self.domains.reason_not_to_reserve(job, {running.job.id for running in self.running.values()})

    def check_extend(
        self, lease: Lease, answer: Lease | LeaseError, lease_for: int, now: int, *, has_started: bool
    ) -> None:
        """A valid lease is extended; any other lease is refused with the right error (L5)."""
        wanted = self._refusal(lease, now)
        if wanted is None:
            if not isinstance(answer, Lease):
                raise Violation(f"the valid lease {lease.fence} was not extended: {answer!r}")
            tracked = self.running[lease.fence]
            values = (answer.token, answer.expires_at, answer.cancel_requested)
            if values != (lease.token, now + lease_for, tracked.cancel_requested):
                raise Violation(f"the lease {lease.fence} was extended at {now} to {answer}")
            tracked.expires_at = answer.expires_at
            tracked.has_started = tracked.has_started or has_started
        elif type(answer) is not wanted:
            raise Violation(f"lease {lease.fence}: wanted {wanted.__name__}, got {answer!r}")

    def check_settle(
        self,
        settlements: Sequence[Settlement],
        answers: Sequence[LeaseError | None],
        rows: Sequence[LedgerRow],
        now: int,
    ) -> None:
        """A stale lease is refused, a valid lease is accepted, and each accepted settlement has one row (L5, L6)."""
        if len(answers) != len(settlements):
            raise Violation("settle did not answer every settlement")
        rows_by_fence = {row.fence: row for row in rows}
        for settlement, answer in zip(settlements, answers, strict=True):
            name = f"{settlement.verb} under fence {settlement.lease.fence}"
            is_repeat = self._is_repeat(settlement)
            wanted = NoneType if is_repeat else self._refusal(settlement.lease, now) or NoneType
            if type(answer) is not wanted:
                raise Violation(f"{name}{' (repeated)' * is_repeat}: wanted {wanted.__name__}, got {answer!r}")
            if wanted is NoneType and not is_repeat:
                row = rows_by_fence.pop(settlement.lease.fence, None)
                if row is None or row.ending not in _ENDINGS_OF_VERB[settlement.verb]:
                    raise Violation(f"{name} wrote the ledger row {row}")
                self.running[settlement.lease.fence].verb = settlement.verb
                self._apply_row(row, now)
        if rows_by_fence:
            raise Violation(f"settle wrote rows for settlements that it refused: {rows_by_fence}")

    def check_reap(
        self,
        rows: Sequence[LedgerRow],
        now: int,
        *,
        queues: Sequence[str] | None = None,
        worker: str | None = None,
    ) -> None:
        """All leases that were due ended, and no others."""

        def is_due(tracked: TrackedLease) -> bool:
            is_in_queues = queues is None or tracked.job.queue in queues
            return is_in_queues and (now >= tracked.expires_at if worker is None else tracked.worker == worker)

        for row in rows:
            tracked = self.running.get(row.fence or 0)
            if not (tracked is not None and is_due(tracked)):
                raise Violation(f"a lease was reaped too early: {row}")
            if row.ending not in {Ending.EXPIRED, Ending.CANCELLED}:
                raise Violation(f"a reaped lease wrote the ledger row {row}")
            self._apply_row(row, now)
        due_fences = [fence for fence, tracked in self.running.items() if is_due(tracked)]
        if due_fences:
            raise Violation(f"the leases {due_fences} should have been reaped")

    def check_outage(
        self, leases: Sequence[Lease], answers: Sequence[bool], rows: Sequence[LedgerRow], now: int
    ) -> None:
        """Expired leases end without a crash, and a counted crash is taken back once; nothing else changes (L7)."""
        rows_by_fence = {row.fence: row for row in rows}
        for lease, answer in zip(leases, answers, strict=True):
            tracked = self.jobs.get(lease.job_id)
            is_expired = self._refusal(lease, now) is LeaseExpired
            has_crash = tracked is not None and tracked.is_open and tracked.counted_crash == lease.fence
            if answer is not (is_expired or has_crash):
                raise Violation(f"the report of lease {lease.fence} was answered with {answer}")
            if is_expired:
                row = rows_by_fence.pop(lease.fence, None)
                if row is None or row.ending not in {Ending.EXPIRED, Ending.CANCELLED}:
                    raise Violation(f"the report of lease {lease.fence} wrote the ledger row {row}")
                self._apply_row(row, now, in_outage=True)
            elif tracked is not None and has_crash:
                tracked.crashes, tracked.counted_crash = max(0, tracked.crashes - 1), None
        if rows_by_fence:
            raise Violation(f"the report of an outage wrote rows of other leases: {rows_by_fence}")

    def _refusal(self, lease: Lease, now: int) -> type[LeaseError] | None:
        """Return the error that L5 requires, or None for a valid lease; the order of the checks is that of L5."""
        tracked = self.jobs.get(lease.job_id)
        if tracked is None or tracked.state is not State.INFLIGHT or tracked.last_lease is None:
            return JobNotInflight
        if tracked.last_lease.lease.token != lease.token:
            return LeaseMismatch
        return LeaseExpired if now >= tracked.last_lease.expires_at else None

    def _is_repeat(self, settlement: Settlement) -> bool:
        tracked = self.jobs.get(settlement.lease.job_id)
        if tracked is None or tracked.state in (None, State.INFLIGHT) or tracked.last_lease is None:
            return False
        last = tracked.last_lease
        return (last.lease.token, last.verb) == (settlement.lease.token, settlement.verb)

    # Operators ------------------------------------------------------------------------------------------------------

    def check_cancel(self, job_ids: Sequence[str], rows: Sequence[LedgerRow], now: int) -> None:
        """Ready jobs end; running jobs get a cancel request."""
        for job_id in job_ids:
            tracked = self.jobs.get(job_id)
            if tracked is not None and tracked.state is State.INFLIGHT and tracked.last_lease is not None:
                tracked.last_lease.cancel_requested = True
        self.check_operator_rows(rows, now)

    def check_operator_rows(self, rows: Sequence[LedgerRow], now: int) -> None:
        """Cancel, requeue and purge write rows without a lease."""
        for row in rows:
            if not (row.fence is None and row.ending in _ENDINGS_WITHOUT_LEASE):
                raise Violation(f"an operator's call wrote the ledger row {row}")
            self._apply_row(row, now)

    def check_resume(
        self, place: Place, action: ResumeAction, rows: Sequence[LedgerRow], now: int, *, answer: bool
    ) -> None:
        """Exactly a halted domain is resumed, and a retry requeues the job that halted it (L11)."""
        halted_by = self.domains.halts.get(place)
        if answer is not (halted_by is not None):
            raise Violation(f"resume of {place}, halted by {halted_by}, was answered with {answer}")
        wanted = [halted_by] if halted_by is not None and action is ResumeAction.RETRY else []
        if [row.job_id for row in rows] != wanted:
            raise Violation(f"{action} of {place} requeued {rows}, wanted {wanted}")
        self.check_operator_rows(rows, now)
        self.domains.halts.pop(place, None)

    def check_trim(self, count: int, before: int) -> None:
        """Done and cancelled jobs that are old enough were removed, and no others."""
        old_jobs = [
            tracked
            for tracked in self.jobs.values()
            if tracked.state in (State.DONE, State.CANCELLED) and tracked.ended_at <= before
        ]
        if count != len(old_jobs):
            raise Violation(f"{count} jobs were trimmed, {len(old_jobs)} were old enough")
        for tracked in old_jobs:
            tracked.state = None

    # Ledger rows ----------------------------------------------------------------------------------------------------

    def _apply_row(self, row: LedgerRow, now: int, *, in_outage: bool = False) -> None:
        """Check one new row, then update the job and the order of its domain (L11, L13)."""
        tracked = self._known_job(row.job_id)
        if row.ended_at != now:
            raise Violation(f"at {now} the ledger got {row}")
        if row.fence is not None:
            lease = self._end_lease(row)
            reason = count_ending(tracked, lease, row, in_outage=in_outage)
            if reason is not None:
                raise Violation(reason)
        elif row.ending is not Ending.PURGED and (row.ending is Ending.CANCELLED) != (tracked.state is State.READY):
            raise Violation(f"{row.job_id} was {tracked.state}, got {row}")
        tracked.state, tracked.ended_at = row.state, now
        if row.ending is Ending.REQUEUED:
            tracked.was_requeued = True
            tracked.attempts, tracked.crashes, tracked.is_suspect = 0, 0, False
            tracked.counted_crash = None
        self.domains.apply_row(row)

    def _end_lease(self, row: LedgerRow) -> TrackedLease:
        """Check that the lease had not ended before and that the row has its values; return the lease."""
        tracked = self.running.pop(row.fence or 0, None)
        if tracked is None:
            raise Violation(f"the lease of {row} had ended before")
        got = (row.job_id, row.attempt, row.worker, row.reserved_at)
        wanted = (tracked.job.id, tracked.job.attempts, tracked.worker, tracked.reserved_at)
        if got != wanted:
            raise Violation(f"the ledger row of a lease: wanted {wanted}, got {got}")
        if row.ending is not Ending.ACKED and tracked.cancel_requested != (row.ending is Ending.CANCELLED):
            raise Violation(f"cancellation was {'' if tracked.cancel_requested else 'not '}requested, got {row}")
        tracked.row = row
        return tracked

    def _known_job(self, job_id: str) -> TrackedJob:
        tracked = self.jobs.get(job_id)
        if tracked is None or tracked.state is None:
            raise Violation(f"job {job_id} was never accepted, or was removed")
        return tracked

    # The end of the run ---------------------------------------------------------------------------------------------

    def check_final_state(self, store: Store) -> None:
        """After the drain: no job is lost, no two leases overlap, every lease has one row."""
        for job_id, tracked in self.jobs.items():
            record = store.get(job_id)
            state = None if record is None else record.state
            if state != tracked.state:
                raise Violation(f"{job_id} should be {tracked.state}, is {state}")
            if tracked.is_open:
                raise Violation(f"{job_id} was never finished: it is {state}")
        if self.running:
            raise Violation(f"the leases {list(self.running)} have no ledger row")
        for first, second in self._successive_leases():
            if first.valid_until > second.reserved_at:
                raise Violation(f"fences {first.lease.fence} and {second.lease.fence} were valid at the same time")

    def _successive_leases(self) -> Iterator[tuple[TrackedLease, TrackedLease]]:
        """Yield each two leases that followed each other for one job, or in one domain."""
        groups: dict[tuple[str, ...], list[TrackedLease]] = {}
        for tracked in self.leases:
            groups.setdefault((tracked.job.id,), []).append(tracked)
            if tracked.job.domain is not None:
                groups.setdefault((tracked.job.queue, tracked.job.domain), []).append(tracked)
        for group in groups.values():
            group.sort(key=lambda tracked: tracked.reserved_at)
            yield from pairwise(group)
