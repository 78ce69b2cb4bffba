"""Drivers that get ownership wrong: tokens, fences, expiry, repetition, batches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from holdfast.drivers.memory.driver import MemoryDriver
from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.space import Space
from holdfast.errors import LeaseError, LeaseExpired, LeaseMismatch
from holdfast.model import transition
from holdfast.model.lease import Lease, Note, Reservation
from holdfast.model.settlement import Ack, Settlement
from holdfast.testing.drivers.faulty.faulty_driver import BentSpace, Faulty

GAP = 0.005  # long enough for every thread of a race to arrive between two critical sections


class AckIgnoresToken(Faulty):
    """Whoever knows the id may ack the job."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if isinstance(settlement, Ack) and row is not None and row.token is not None:
            settlement = replace(settlement, lease=replace(settlement.lease, token=row.token))
        return super()._settle(space, settlement, now)


class AckIgnoresExpiry(Faulty):
    """An ack is accepted as long as nobody has reaped the job."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        answer = super()._settle(space, settlement, now)
        if isinstance(settlement, Ack) and isinstance(answer, LeaseExpired):
            row = space.rows[settlement.lease.job_id]
            space.end(row, transition.after_settlement(row.held, settlement, now), settlement.verb, now)
            return None
        return answer


class _LateRefusal(BentSpace):
    def refusal(self, lease: Lease, now: int) -> LeaseError | None:
        refused = super().refusal(lease, now)
        return None if isinstance(refused, LeaseExpired) and refused.expires_at == now else refused


class ExpiresLate(Faulty):
    """A lease is valid in the microsecond of its end: ``>`` where ``>=`` is the law."""

    rows = _LateRefusal


class _LateSpace(BentSpace):
    def expired(self, queues: list[str], now: int) -> list[Row]:
        return super().expired(queues, now - 1)


class ReapsLate(Faulty):
    """A reap leaves a lease alone in the microsecond of its end."""

    rows = _LateSpace


class _EarlySpace(BentSpace):
    def expired(self, queues: list[str], now: int) -> list[Row]:
        return super().expired(queues, now + 1)


class ReapsEarly(Faulty):
    """A reap ends a lease a microsecond before its end."""

    rows = _EarlySpace


class _HastySpace(BentSpace):
    def expired(self, queues: list[str], now: int) -> list[Row]:
        del now
        return [self.rows[job_id] for queue in queues for _, _, job_id in self.leases[queue]]


class ReapsValidLeases(Faulty):
    """A reap ends every lease it finds."""

    rows = _HastySpace


class ExtendRevives(Faulty):
    """An expired lease can be extended until somebody reaps it."""

    def _extend(self, space: Space, lease: Lease, now: int, expires_at: int, note: Note | None) -> Lease | LeaseError:
        answer = super()._extend(space, lease, now, expires_at, note)
        if isinstance(answer, LeaseExpired):
            space.extend(space.rows[lease.job_id], expires_at)
            return replace(lease, expires_at=expires_at)
        return answer


class ExtendIgnoresToken(Faulty):
    """Whoever knows the id may keep the lease alive."""

    def _extend(self, space: Space, lease: Lease, now: int, expires_at: int, note: Note | None) -> Lease | LeaseError:
        row = space.rows.get(lease.job_id)
        if row is not None and row.token is not None:
            lease = replace(lease, token=row.token)
        return super()._extend(space, lease, now, expires_at, note)


class ExtendOnlyLengthens(Faulty):
    """An extend never moves the end of a lease back, though it says so."""

    def _extend(self, space: Space, lease: Lease, now: int, expires_at: int, note: Note | None) -> Lease | LeaseError:
        row = space.rows.get(lease.job_id)
        before = row.expires_at if row is not None else None
        answer = super()._extend(space, lease, now, expires_at, note)
        if row is not None and isinstance(answer, Lease) and before is not None and before > expires_at:
            space.extend(row, before)
        return answer


class _ErasesNotes(BentSpace):
    def store_note(self, row: Row, note: Note) -> None:
        row.note, row.started_at = note, note.started_at


class ExtendForgetsNotes(Faulty):
    """What a note leaves out is erased."""

    rows = _ErasesNotes


class _ExpiryBeforeToken(BentSpace):
    def refusal(self, lease: Lease, now: int) -> LeaseError | None:
        refused = super().refusal(lease, now)
        row = self.rows.get(lease.job_id)
        if isinstance(refused, LeaseMismatch) and row is not None and (row.expires_at or 0) <= now:
            return LeaseExpired(lease.job_id, expires_at=row.expires_at or 0, now=now)
        return refused


class TellsExpiryFirst(Faulty):
    """A stranger learns that a lease has expired before its token is looked at."""

    rows = _ExpiryBeforeToken


class StaleSuccess(Faulty):
    """A repetition is accepted for any token: a stale worker hears "success"."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if row is not None and row.token is None and row.last_verb == settlement.verb:
            return None
        return super()._settle(space, settlement, now)


class AnyVerbAgain(Faulty):
    """A repetition is accepted for any verb."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if row is not None and row.token is None and row.last_token == settlement.lease.token:
            return None
        return super()._settle(space, settlement, now)


class RepeatsWhileInFlight(Faulty):
    """A repetition is accepted though the job is reserved again."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        last = None if row is None else (row.last_verb, row.last_token)
        return None if last == (settlement.verb, settlement.lease.token) else super()._settle(space, settlement, now)


class NeverRepeats(Faulty):
    """A repetition is refused: a worker whose answer was lost believes that it lost its lease."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        return space.refusal(settlement.lease, now) or super()._settle(space, settlement, now)


class RepeatsTheEffect(Faulty):
    """A repetition writes to the ledger again."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if row is not None and transition.is_repeat(row.held, settlement):
            space.ledger.append(space.ledger.rows[-1])
        return super()._settle(space, settlement, now)


class ReusesTokens(Faulty):
    """A job keeps the token of its first reservation."""

    def reserve(self, queues: Sequence[str], **options: Any) -> list[Reservation]:
        """Reserve, and put the old token back."""
        with self._lock:
            found = super().reserve(queues, **options)
            return [self._retoken(held, self._space.rows[held.job.id]) for held in found]

    @staticmethod
    def _retoken(held: Reservation, row: Row) -> Reservation:
        row.token = row.last_token or held.lease.token
        return replace(held, lease=replace(held.lease, token=row.token))


class _CountingSpace(BentSpace):
    def __init__(self, driver: Faulty) -> None:
        super().__init__(driver)
        self.fences: Counter[str] = Counter()


class FencePerQueue(Faulty):
    """Every queue counts its own fences."""

    rows = _CountingSpace

    def reserve(self, queues: Sequence[str], **options: Any) -> list[Reservation]:
        """Reserve, and number anew."""
        with self._lock:
            return [self._renumber(held) for held in super().reserve(queues, **options)]

    def _renumber(self, held: Reservation) -> Reservation:
        assert isinstance(self._space, _CountingSpace)
        row = self._space.rows[held.job.id]
        self._space.fences[row.job.queue] += 1
        row.fence = self._space.fences[row.job.queue]
        row.token = f"{row.fence}.{held.lease.token.split('.')[1]}"
        return replace(held, lease=replace(held.lease, token=row.token, fence=row.fence))


class FenceRestarts(Faulty):
    """The counter of fences starts again with every connection."""

    def space(self, name: str) -> MemoryDriver:
        """The space, with its counter forgotten."""
        driver = super().space(name)
        driver._space.counter.last = 0
        return driver


class BatchSpoiled(Faulty):
    """One bad item of a batch refuses all of them."""

    def settle(self, settlements: Sequence[Settlement], *, now: int | None = None) -> list[LeaseError | None]:
        """Try the batch on a copy, and give up at the first refusal."""
        with self._lock:
            self._validation.check_settle(settlements)
            tried = deepcopy(self._open_space())
            answers = [self._settle(tried, settlement, self._validation.now(now)) for settlement in settlements]
            refusals = [answer for answer in answers if answer is not None]
            return [refusals[0]] * len(answers) if refusals else super().settle(settlements, now=now)


class BatchStopsEarly(Faulty):
    """Behind the first bad item everything is answered as accepted, and not done."""

    def settle(self, settlements: Sequence[Settlement], *, now: int | None = None) -> list[LeaseError | None]:
        """Settle one by one, up to the first refusal."""
        self._validation.check_settle(settlements)
        answers = super().settle(settlements[:1], now=now)
        for settlement in settlements[1:]:
            if answers[-1] is not None:
                break
            answers += super().settle([settlement], now=now)
        return answers + [None] * (len(settlements) - len(answers))


class ExtendAnswersOutOfOrder(Faulty):
    """The refusals of a batch are told after the leases that were extended."""

    def extend(self, leases: Sequence[Lease], **options: Any) -> list[Lease | LeaseError]:
        """The answers, sorted."""
        return sorted(super().extend(leases, **options), key=lambda answer: isinstance(answer, LeaseError))


class HandsOutTwice(Faulty):
    """Finding a job and leasing it are two steps: who comes between them gets the live token of another."""

    def reserve(self, queues: Sequence[str], **options: Any) -> list[Reservation]:
        """Look, pause, reserve; hand out what was seen, whoever has it by then."""
        with self._lock:
            now = self._validation.now(options.get("now"))
            lanes = [line for lane, line in self._space.lanes.items() if lane.queue in queues]
            seen = [job_id for line in lanes for at, _, job_id in line if at <= now][:1]
        time.sleep(GAP if seen else 0)
        with self._lock:
            found = super().reserve(queues, **options)
            return found or [self._again(row) for job_id in seen if (row := self._space.rows[job_id]).token]

    @staticmethod
    def _again(row: Row) -> Reservation:
        lease = Lease(job_id=row.job.id, token=row.token or "", fence=row.fence or 0, expires_at=row.expires_at or 0)
        return Reservation(job=row.job, lease=lease)


FAULTY: tuple[type[Faulty], ...] = (
    AckIgnoresToken,
    AckIgnoresExpiry,
    ExpiresLate,
    ReapsLate,
    ReapsEarly,
    ReapsValidLeases,
    ExtendRevives,
    ExtendIgnoresToken,
    ExtendOnlyLengthens,
    ExtendForgetsNotes,
    TellsExpiryFirst,
    StaleSuccess,
    AnyVerbAgain,
    RepeatsWhileInFlight,
    NeverRepeats,
    RepeatsTheEffect,
    ReusesTokens,
    FencePerQueue,
    FenceRestarts,
    BatchSpoiled,
    BatchStopsEarly,
    ExtendAnswersOutOfOrder,
    HandsOutTwice,
)
