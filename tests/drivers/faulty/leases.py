"""Faulty drivers: tokens, fences and expiry."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from holdfast.drivers import requests as r
from holdfast.drivers.answers import Reserved
from holdfast.drivers.memory.engine import MemoryEngine
from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.space import Space
from holdfast.errors import LeaseError, LeaseExpired, LeaseMismatch
from holdfast.model.lease import Lease, Reservation
from holdfast.model.settlement import Ack, Settlement
from holdfast.model.transition import after_settlement
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace


class AckIgnoresToken(FaultyDriver):
    """An ack is accepted with any token."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if isinstance(settlement, Ack) and row is not None and row.token is not None:
            settlement = replace(settlement, lease=replace(settlement.lease, token=row.token))
        return super()._settle(space, settlement, now)


class AckIgnoresExpiry(FaultyDriver):
    """An ack is accepted after the lease expired, until the job is reaped."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        answer = super()._settle(space, settlement, now)
        if isinstance(settlement, Ack) and isinstance(answer, LeaseExpired):
            row = space.rows[settlement.lease.job_id]
            space.end(row, after_settlement(row.held, settlement, now), settlement.verb, now)
            return None
        return answer


class _LeaseExpiresLateSpace(FaultySpace):
    def refusal(self, lease: Lease, now: int) -> LeaseError | None:
        refusal = super().refusal(lease, now)
        return None if isinstance(refusal, LeaseExpired) and refusal.expires_at == now else refusal


class LeaseExpiresLate(FaultyDriver):
    """A lease is still valid at expires_at: ``>`` instead of ``>=``."""

    space_type = _LeaseExpiresLateSpace


class _ExpiryBeforeTokenSpace(FaultySpace):
    def refusal(self, lease: Lease, now: int) -> LeaseError | None:
        refusal = super().refusal(lease, now)
        row = self.rows.get(lease.job_id)
        if isinstance(refusal, LeaseMismatch) and row is not None and (row.expires_at or 0) <= now:
            return LeaseExpired(lease.job_id, expires_at=row.expires_at or 0, now=now)
        return refusal


class ExpiryReportedBeforeWrongToken(FaultyDriver):
    """A wrong token is reported as an expired lease."""

    space_type = _ExpiryBeforeTokenSpace


class TokensReused(FaultyDriver):
    """A job keeps the token of its first reservation."""

    def reserve(self, request: r.Reserve) -> Reserved:
        """Reserve, and put the old token back."""
        reserved = super().reserve(request)
        return Reserved([self._with_old_token(one, self._space.rows[one.job.id]) for one in reserved.reservations])

    @staticmethod
    def _with_old_token(reservation: Reservation, row: Row) -> Reservation:
        row.token = row.last_token or reservation.lease.token
        return replace(reservation, lease=replace(reservation.lease, token=row.token))


class _FencesPerQueueSpace(FaultySpace):
    def __init__(self, driver: FaultyDriver) -> None:
        super().__init__(driver)
        self.fences: Counter[str] = Counter()


class FencesPerQueue(FaultyDriver):
    """Every queue has its own fence counter."""

    space_type = _FencesPerQueueSpace

    def reserve(self, request: r.Reserve) -> Reserved:
        """Reserve, and replace each fence."""
        return Reserved([self._with_queue_fence(one) for one in super().reserve(request).reservations])

    def _with_queue_fence(self, reservation: Reservation) -> Reservation:
        assert isinstance(self._space, _FencesPerQueueSpace)
        row = self._space.rows[reservation.job.id]
        self._space.fences[row.job.queue] += 1
        row.fence = self._space.fences[row.job.queue]
        row.token = f"{row.fence}.{reservation.lease.token.split('.')[1]}"
        return replace(reservation, lease=replace(reservation.lease, token=row.token, fence=row.fence))


class FencesRestartPerConnection(FaultyDriver):
    """The fence counter restarts with every connection."""

    def open_space(self, name: str) -> MemoryEngine:
        """Return the space with its counter set to 0."""
        space = super().open_space(name)
        space._space.counter.last = 0
        return space


class _FencesReusedSpace(FaultySpace):
    def next_numbers(self, count: int) -> int:
        if self.counter.last > 12:
            self.counter.last = 0
        return super().next_numbers(count)


class FencesReused(FaultyDriver):
    """The fence counter restarts after twelve reservations."""

    space_type = _FencesReusedSpace


class ReserveIsNotAtomic(FaultyDriver):
    """Reserve finds and leases a job in two steps: a second caller gets the token of the first."""

    def reserve(self, request: r.Reserve) -> Reserved:
        """Find a job, wait, reserve; return that job even if another caller has it."""
        now = self._now(request)
        lanes = [places for lane, places in self._space.lanes.items() if lane.queue in request.queues]
        found_ids = [job_id for places in lanes for due_at, _, job_id in places if due_at <= now][:1]
        self.let_others_in()
        reserved = super().reserve(request)
        found = [self._reservation_of(row) for job_id in found_ids if (row := self._space.rows[job_id]).token]
        return reserved if reserved.reservations else Reserved(found)

    @staticmethod
    def _reservation_of(row: Row) -> Reservation:
        lease = Lease(job_id=row.job.id, token=row.token or "", fence=row.fence or 0, expires_at=row.expires_at or 0)
        return Reservation(job=row.job, lease=lease)


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    AckIgnoresToken,
    AckIgnoresExpiry,
    LeaseExpiresLate,
    ExpiryReportedBeforeWrongToken,
    TokensReused,
    FencesPerQueue,
    FencesRestartPerConnection,
    FencesReused,
    ReserveIsNotAtomic,
)
