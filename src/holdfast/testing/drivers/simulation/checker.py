"""What an onlooker who sees every call, every answer and the ledger knows; anything that contradicts it is a violation.

The judge keeps no model of the queue: it does not know which job comes next, only what must never happen. Most laws are
checked as the calls come, while it is clear which call broke them; ``verdict`` at the end looks at the whole history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import NoneType

from holdfast.clock import DAY
from holdfast.drivers.contract import Store
from holdfast.errors import JobNotInflight, LeaseError, LeaseExpired, LeaseMismatch
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Reservation
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.settlement import Settlement

_SETTLED = {
    "ack": {Ending.ACKED},
    "retry": {Ending.RETRIED, Ending.CANCELLED},
    "fail": {Ending.FAILED, Ending.CANCELLED},
    "release": {Ending.RELEASED, Ending.CANCELLED},
}
_WITHOUT_LEASE = {Ending.CANCELLED, Ending.REQUEUED, Ending.PURGED}


class Violation(AssertionError):
    """A law was broken."""


@dataclass(slots=True)
class HeldLease:
    """One lease, from its reservation to its ledger row."""

    job: JobRecord
    lease: Lease
    worker: str
    reserved_at: int
    expires_at: int
    row: LedgerRow | None = None
    verb: str | None = None  # of the settlement that ended it
    cancelled: bool = False  # somebody asked it to stop

    @property
    def until(self) -> int:
        """The end of the time in which it was valid."""
        return self.expires_at if self.row is None else min(self.row.ended_at, self.expires_at)


@dataclass(slots=True)
class Known:
    """One accepted job."""

    record: JobRecord
    state: State | None = State.READY  # None: purged or trimmed
    ended_at: int = 0
    last: HeldLease | None = None
    requeued: bool = False

    @property
    def live(self) -> bool:
        """Whether the job has not ended."""
        return self.state is not None and not self.state.has_ended


class Judge:
    """Told of every call after it was made, in order."""

    def __init__(self) -> None:
        self.jobs: dict[str, Known] = {}
        self.held: list[HeldLease] = []  # every lease ever given
        self.running: dict[int, HeldLease] = {}  # those without a ledger row, by fence
        self.lines: dict[tuple[str, str], list[str]] = {}  # live jobs of each domain, in order
        self.keys: dict[tuple[str, str], tuple[str, int]] = {}  # whose the key is, and until when at least
        self.paused: dict[str, int] = {}
        self.highest = 0

    # Producers --------------------------------------------------------------------------------------------------

    def enqueued(self, records: Sequence[JobRecord], answers: Sequence[Enqueued], now: int) -> None:
        """Same id, same job; same key, same job (L6, L12)."""
        if len(answers) != len(records):
            raise Violation("enqueue did not answer every record")
        for record, answer in zip(records, answers, strict=True):
            allowed = self._answers(record, now)
            if (answer.id, answer.existed) not in allowed:
                raise Violation(f"{record.id}: wanted one of {allowed}, got {answer}")
            if not answer.existed:
                self._accept(record)
                if record.idempotency_key:
                    self.keys[record.queue, record.idempotency_key] = (record.id, now + DAY)

    def _answers(self, record: JobRecord, now: int) -> list[tuple[str, bool]]:
        """The ids that enqueue may answer with, and whether they existed."""
        new, again = (record.id, False), (record.id, True)
        if record.id in self.jobs and self.jobs[record.id].state is not None:
            return [again]
        holder, until = self.keys.get((record.queue, record.idempotency_key or ""), ("", 0))
        if not holder:
            return [new]
        known = self.jobs[holder]
        if now < until or (known.live and not known.requeued):
            return [(holder, True)]
        # Requeued after its key could be forgotten: the law does not say whether the key is its own again.
        return [(holder, True), new] if known.live else [new]

    def _accept(self, record: JobRecord) -> None:
        self.jobs[record.id] = Known(record)
        if record.domain is not None:
            self.lines.setdefault((record.queue, record.domain), []).append(record.id)

    # Workers ----------------------------------------------------------------------------------------------------

    def reserved(
        self,
        worker: str,
        queues: Sequence[str],
        taken: Sequence[Reservation],
        rows: Sequence[LedgerRow],
        now: int,
    ) -> None:
        """Nobody else holds it, it is due and in order, it may run once more, and its fence is the largest."""
        self.reaped(rows, now, queues=queues)
        before = self.highest
        for reservation in taken:
            job, lease = reservation.job, reservation.lease
            if lease.fence <= before or lease.fence in self.running:
                raise Violation(f"fence {lease.fence} is not new: {before} came before")
            if lease.expires_at <= now:
                raise Violation(f"fence {lease.fence} was born expired")
            known = self._kept(job.id)
            fault = self._unfit(job, known, now)
            if fault is not None:
                raise Violation(f"{job.id} under fence {lease.fence} {fault}")
            known.state = State.INFLIGHT
            known.last = HeldLease(job, lease, worker, now, lease.expires_at)
            self.held.append(known.last)
            self.running[lease.fence] = known.last
            self.highest = max(self.highest, lease.fence)

    def _unfit(self, job: JobRecord, known: Known, now: int) -> str | None:
        """Why the job should not have been handed out."""
        if known.state is not State.READY:
            return f"was reserved while it was {known.state}"
        if not 1 <= job.attempts <= known.record.max_attempts:
            return f"runs {job.attempts} of {known.record.max_attempts}"
        if job.run_at is not None and job.run_at > now:
            return f"is not due before {job.run_at}"
        if now < self.paused.get(job.queue, 0):
            return "came out of a paused queue"
        if job.domain is not None and (head := self.lines[job.queue, job.domain][0]) != job.id:
            return f"overtook {head} in its domain"
        return None

    def extended(self, lease: Lease, answer: Lease | LeaseError, lease_for: int, now: int) -> None:
        """A valid lease is extended, any other is refused for the right reason (L5)."""
        wanted = self._refusal(lease, now)
        if wanted is None:
            if not isinstance(answer, Lease):
                raise Violation(f"the valid lease {lease.fence} was not extended: {answer!r}")
            held = self.running[lease.fence]
            told = (answer.token, answer.expires_at, answer.cancel_requested)
            if told != (lease.token, now + lease_for, held.cancelled):
                raise Violation(f"the lease {lease.fence} was extended at {now} to {answer}")
            held.expires_at = answer.expires_at
        elif type(answer) is not wanted:
            raise Violation(f"lease {lease.fence}: wanted {wanted.__name__}, got {answer!r}")

    def settled(
        self,
        settlements: Sequence[Settlement],
        answers: Sequence[LeaseError | None],
        rows: Sequence[LedgerRow],
        now: int,
    ) -> None:
        """A stale worker is never told "success", a valid one never refused, and each success has its row (L5, L6)."""
        if len(answers) != len(settlements):
            raise Violation("settle did not answer every settlement")
        written = {row.fence: row for row in rows}
        for settlement, answer in zip(settlements, answers, strict=True):
            name = f"{settlement.verb} under fence {settlement.lease.fence}"
            replay = self._is_replay(settlement)
            wanted = NoneType if replay else self._refusal(settlement.lease, now) or NoneType
            if type(answer) is not wanted:
                raise Violation(f"{name}{' again' * replay}: wanted {wanted.__name__}, got {answer!r}")
            if wanted is NoneType and not replay:
                row = written.pop(settlement.lease.fence, None)
                if row is None or row.ending not in _SETTLED[settlement.verb]:
                    raise Violation(f"{name} left the ledger row {row}")
                self.running[settlement.lease.fence].verb = settlement.verb
                self._record(row, now)
        if written:
            raise Violation(f"settle wrote rows for settlements that it did not make: {written}")

    def reaped(
        self,
        rows: Sequence[LedgerRow],
        now: int,
        *,
        queues: Sequence[str] | None = None,
        worker: str | None = None,
    ) -> None:
        """Only what is due was ended, and all of it."""

        def due(held: HeldLease) -> bool:
            asked = queues is None or held.job.queue in queues
            return asked and (now >= held.expires_at if worker is None else held.worker == worker)

        for row in rows:
            reaped = self.running.get(row.fence or 0)
            if not (reaped is not None and due(reaped)):
                raise Violation(f"a lease was reaped too early: {row}")
            if row.ending not in {Ending.EXPIRED, Ending.CANCELLED}:
                raise Violation(f"a reaped lease left {row}")
            self._record(row, now)
        left = [fence for fence, held in self.running.items() if due(held)]
        if left:
            raise Violation(f"the leases {left} should have been reaped")

    def _refusal(self, lease: Lease, now: int) -> type[LeaseError] | None:
        """Law L5, in its order; None for a valid lease."""
        known = self.jobs.get(lease.job_id)
        if known is None or known.state is not State.INFLIGHT or known.last is None:
            return JobNotInflight
        if known.last.lease.token != lease.token:
            return LeaseMismatch
        return LeaseExpired if now >= known.last.expires_at else None

    def _is_replay(self, settlement: Settlement) -> bool:
        known = self.jobs.get(settlement.lease.job_id)
        if known is None or known.state in (None, State.INFLIGHT) or known.last is None:
            return False
        return (known.last.lease.token, known.last.verb) == (settlement.lease.token, settlement.verb)

    # Operators --------------------------------------------------------------------------------------------------

    def cancelled(self, job_ids: Sequence[str], rows: Sequence[LedgerRow], now: int) -> None:
        """Ready jobs end, running ones are asked to stop."""
        for job_id in job_ids:
            known = self.jobs.get(job_id)
            if known is not None and known.state is State.INFLIGHT and known.last is not None:
                known.last.cancelled = True
        self.acted(rows, now)

    def acted(self, rows: Sequence[LedgerRow], now: int) -> None:
        """Cancelled, requeued and purged without a lease: the ledger says so."""
        for row in rows:
            if not (row.fence is None and row.ending in _WITHOUT_LEASE):
                raise Violation(f"an operator's act left {row}")
            self._record(row, now)

    def trimmed(self, count: int, before: int) -> None:
        """Done and cancelled jobs that are old enough, and no others."""
        old = [
            known
            for known in self.jobs.values()
            if known.state in (State.DONE, State.CANCELLED) and known.ended_at <= before
        ]
        if count != len(old):
            raise Violation(f"{count} jobs were trimmed, {len(old)} were old enough")
        for known in old:
            known.state = None

    # The ledger -------------------------------------------------------------------------------------------------

    def _record(self, row: LedgerRow, now: int) -> None:
        """One ending: exactly one for each lease, true in what it says, and the turn goes on (L11, L13)."""
        known = self._kept(row.job_id)
        if row.ended_at != now:
            raise Violation(f"at {now} the ledger got {row}")
        if row.fence is not None:
            self._end(row)
        elif row.ending is not Ending.PURGED and (row.ending is Ending.CANCELLED) != (known.state is State.READY):
            raise Violation(f"{row.job_id} was {known.state}, got {row}")
        known.state, known.ended_at = row.state, now
        known.requeued = known.requeued or row.ending is Ending.REQUEUED
        line = self.lines.get((row.queue, row.domain or ""), [])
        if row.job_id in line and not known.live:
            line.remove(row.job_id)
        elif row.ending is Ending.REQUEUED and row.domain is not None:
            line.append(row.job_id)

    def _end(self, row: LedgerRow) -> None:
        """The end of a lease: its only one, and as it was."""
        held = self.running.pop(row.fence or 0, None)
        if held is None:
            raise Violation(f"the lease of {row} had ended before")
        told = (row.job_id, row.attempt, row.worker, row.reserved_at)
        true = (held.job.id, held.job.attempts, held.worker, held.reserved_at)
        if told != true:
            raise Violation(f"the ledger says {told} of the lease {true}")
        if row.ending is not Ending.ACKED and held.cancelled != (row.ending is Ending.CANCELLED):
            raise Violation(f"cancellation was {'' if held.cancelled else 'not '}requested, got {row}")
        held.row = row

    def _kept(self, job_id: str) -> Known:
        known = self.jobs.get(job_id)
        if known is None or known.state is None:
            raise Violation(f"job {job_id} was never accepted, or is gone")
        return known

    # The end ----------------------------------------------------------------------------------------------------

    def verdict(self, store: Store) -> None:
        """After everything has been drained: nothing lost, nothing twice, one row for each lease."""
        for job_id, known in self.jobs.items():
            record = store.get(job_id)
            state = None if record is None else record.state
            if state != known.state:
                raise Violation(f"{job_id} should be {known.state}, is {state}")
            if known.live:
                raise Violation(f"{job_id} was never finished: it is {state}")
        if self.running:
            raise Violation(f"the leases {list(self.running)} have no ledger row")
        for first, second in self._neighbours():
            if first.until > second.reserved_at:
                raise Violation(f"fences {first.lease.fence} and {second.lease.fence} were valid at the same time")

    def _neighbours(self) -> Iterator[tuple[HeldLease, HeldLease]]:
        """Leases that followed one another for one job, or in one domain."""
        groups: dict[tuple[str, ...], list[HeldLease]] = {}
        for held in self.held:
            groups.setdefault((held.job.id,), []).append(held)
            if held.job.domain is not None:
                groups.setdefault((held.job.queue, held.job.domain), []).append(held)
        for group in groups.values():
            group.sort(key=lambda held: held.reserved_at)
            yield from pairwise(group)
