"""Memory drivers with one bug each, of the kinds that queues have had."""

# ruff: noqa: ARG002, N801 - what is overridden keeps its arguments; a bug in the rows is a class named rows

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from holdfast.drivers.memory import MemoryDriver
from holdfast.drivers.memory.driver import MemoryStore
from holdfast.drivers.memory.rows import Row, StoredKey
from holdfast.drivers.memory.space import Space
from holdfast.errors import LeaseError
from holdfast.model.job import State
from holdfast.model.lease import Lease
from holdfast.model.ledger import Ending
from holdfast.model.order import Capacity
from holdfast.model.settlement import Ack, Retry, Settlement
from holdfast.model.transition import Transition
from holdfast.testing.drivers.faulty.faulty_driver import Faulty


class AckIgnoresTheToken(Faulty):
    """Any worker that knows the id can finish the job."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if isinstance(settlement, Ack) and row is not None and row.token is not None:
            settlement = replace(settlement, lease=replace(settlement.lease, token=row.token))
        return super()._settle(space, settlement, now)


class AnyAckOfADoneJobSucceeds(Faulty):
    """A stale worker is told "success" because the job is done, by somebody else."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if isinstance(settlement, Ack) and row is not None and row.job.state is State.DONE:
            return None
        return super()._settle(space, settlement, now)


class RetriesForEver(Faulty):
    """``max_attempts`` is not looked at when an attempt fails."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if isinstance(settlement, Retry) and row is not None and row.job.attempts >= row.job.max_attempts:
            row.job = replace(row.job, max_attempts=row.job.attempts + 1)
        return super()._settle(space, settlement, now)


class OneBadItemSpoilsTheRest(MemoryDriver):
    """A batch stops at the first refusal."""

    def settle(self, settlements, *, now=None):
        answers: list[LeaseError | None] = []
        for settlement in settlements:
            spoilt = next((answer for answer in answers if answer is not None), None)
            answers.append(spoilt or super().settle([settlement], now=now)[0])
        return answers


class CancellationIsForgotten(MemoryDriver):
    """A running job is never told to stop."""

    def cancel(self, job_ids, *, now=None):
        states = super().cancel(job_ids, now=now)
        for row in self._space.rows.values():
            row.cancel_requested = False
        return states


class _WithSpace(MemoryDriver):
    """A driver whose bug is in its rows."""

    rows: type[Space]

    def __init__(self, *, caller_clock: bool = False, space: str = "main", store: MemoryStore | None = None) -> None:
        if store is None:
            store = MemoryStore()
            store.spaces = defaultdict(self.rows)
        super().__init__(caller_clock=caller_clock, space=space, store=store)


class ExpiryIsAMicrosecondLate(_WithSpace):
    """``now > expires_at`` instead of ``now >= expires_at``."""

    class rows(Space):
        def refusal(self, lease: Lease, now: int) -> LeaseError | None:
            return super().refusal(lease, now - 1)


class KeysAreForgottenWithTheJob(_WithSpace):
    """An idempotency key holds only while its job runs, not for its window."""

    class rows(Space):
        def is_taken(self, key: StoredKey, now: int) -> bool:
            row = self.rows.get(key.job_id)
            return row is not None and not row.job.state.has_ended


class TheTurnIsLost(_WithSpace):
    """The next job of a domain never gets its turn."""

    class rows(Space):
        def _pass_turn(self, row: Row) -> None:
            if row.job.domain is not None:
                line = self.domains[row.job.queue, row.job.domain]
                line.remove(row.job.id)
                if not line:
                    del self.domains[row.job.queue, row.job.domain]

        def _leave_lane(self, row: Row) -> None:
            if (row.available_at, row.seq, row.job.id) in self.lanes[row.lane]:
                super()._leave_lane(row)


class DomainsAreIgnored(_WithSpace):
    """Jobs of one domain run side by side."""

    class rows(Space):
        def has_turn(self, row: Row) -> bool:
            return True

        def _pass_turn(self, row: Row) -> None:
            if row.job.domain is not None:
                self.domains[row.job.queue, row.job.domain].remove(row.job.id)


class RetriedJobsAreLost(_WithSpace):
    """A job that is to be tried again is in no line."""

    class rows(Space):
        def end(self, row: Row, outcome: Transition, *args, **kwargs) -> None:
            super().end(row, outcome, *args, **kwargs)
            if outcome.ending is Ending.RETRIED and outcome.state is State.READY:
                self._leave_lane(row)


class HeartbeatsAreNotStored(_WithSpace):
    """Extend answers with a later end, and keeps the old one."""

    class rows(Space):
        def extend(self, row: Row, expires_at: int) -> None:
            pass


class FencesAreReused(_WithSpace):
    """The counter starts again."""

    class rows(Space):
        def next_numbers(self, count: int) -> int:
            if self.counter.last > 12:
                self.counter.last = 0
            return super().next_numbers(count)


class RefundsNothing(_WithSpace):
    """A release costs the attempt that it promises to give back."""

    class rows(Space):
        def end(self, row: Row, outcome: Transition, *args, **kwargs) -> None:
            super().end(row, outcome, *args, **kwargs)
            if outcome.ending is Ending.RELEASED:
                row.job = replace(row.job, attempts=row.job.attempts + 1)


class ReapsWithoutARow(_WithSpace):
    """Expired leases leave no trace in the ledger."""

    class rows(Space):
        def write_ledger(self, row: Row, **facts) -> None:
            if facts["ending"] is not Ending.EXPIRED:
                super().write_ledger(row, **facts)


class PausedQueuesGoOn(_WithSpace):
    """Settings are stored and not honoured."""

    class rows(Space):
        def capacity(self, queues: list[str], now: int) -> Capacity:
            return Capacity()


BROKEN = [
    AckIgnoresTheToken,
    AnyAckOfADoneJobSucceeds,
    CancellationIsForgotten,
    DomainsAreIgnored,
    ExpiryIsAMicrosecondLate,
    FencesAreReused,
    HeartbeatsAreNotStored,
    KeysAreForgottenWithTheJob,
    OneBadItemSpoilsTheRest,
    PausedQueuesGoOn,
    ReapsWithoutARow,
    RefundsNothing,
    RetriedJobsAreLost,
    RetriesForEver,
    TheTurnIsLost,
]
