"""Faulty drivers: reap."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.drivers import requests as r
from holdfast.drivers.answers import Diagnosis, Reaped, Reserved
from holdfast.drivers.memory.rows import Row
from holdfast.model.ledger import Ending
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace


class _ReapsLateSpace(FaultySpace):
    def expired(self, queues: list[str], now: int) -> list[Row]:
        return super().expired(queues, now - 1)


class ReapsLate(FaultyDriver):
    """A reap does not end a lease at expires_at, only later."""

    space_type = _ReapsLateSpace


class _ReapsEarlySpace(FaultySpace):
    def expired(self, queues: list[str], now: int) -> list[Row]:
        return super().expired(queues, now + 1)


class ReapsEarly(FaultyDriver):
    """A reap ends a lease one microsecond before expires_at."""

    space_type = _ReapsEarlySpace


class _ReapsValidLeasesSpace(FaultySpace):
    def expired(self, queues: list[str], now: int) -> list[Row]:
        del now
        return [self.rows[job_id] for queue in queues for _, _, job_id in self.leases[queue]]


class ReapsValidLeases(FaultyDriver):
    """A reap ends every lease, also valid leases."""

    space_type = _ReapsValidLeasesSpace


class _ReapsNewestFirstSpace(FaultySpace):
    def expired(self, queues: list[str], now: int) -> list[Row]:
        return super().expired(queues, now)[::-1]


class ReapsNewestFirst(FaultyDriver):
    """A limited reap starts with the newest expiry."""

    space_type = _ReapsNewestFirstSpace


class ReserveReapsWithoutLimit(FaultyDriver):
    """One reserve ends all expired leases, without a limit."""

    def reserve(self, request: r.Reserve) -> Reserved:
        """End all expired leases first."""
        while super().reap(r.Reap(queues=request.queues, now=request.now)).count == r.REAP_LIMIT:
            pass
        return super().reserve(request)


class ReapIgnoresQueues(FaultyDriver):
    """A reap of some queues ends leases in all queues."""

    def reap(self, request: r.Reap) -> Reaped:
        """Reap all queues."""
        return super().reap(replace(request, queues=None))


class ReapIgnoresWorker(FaultyDriver):
    """A reap for a dead worker ends the leases of all workers."""

    def reap(self, request: r.Reap) -> Reaped:
        """Reap for every worker that has a name."""
        if request.worker:
            for other in {row.worker for row in self._space.rows.values() if row.worker}:
                super().reap(replace(request, worker=other))
        return super().reap(request)


class CountsValidLeasesAsExpired(FaultyDriver):
    """Every lease counts as expired."""

    def diagnose(self, request: r.Diagnose) -> Diagnosis:
        """Count all leases."""
        count = sum(len(leases) for leases in self._space.leases.values())
        return replace(super().diagnose(request), expired_leases=count)


class ReserveForgetsExpiredLeases(FaultyDriver):
    """The leases that a reserve ended are not told."""

    def reserve(self, request: r.Reserve) -> Reserved:
        """Forget them."""
        return replace(super().reserve(request), ended=[])


class TellsExpiredLeasesAgain(FaultyDriver):
    """Expired leases are told every time."""

    def reserve(self, request: r.Reserve) -> Reserved:
        """Tell all leases that ever expired."""
        reserved = super().reserve(request)
        return replace(reserved, ended=[row for row in self._space.ledger.rows if row.ending is Ending.EXPIRED])

    def reap(self, request: r.Reap) -> Reaped:
        """Tell all leases that ever expired."""
        reaped = super().reap(request)
        return replace(reaped, ended=[row for row in self._space.ledger.rows if row.ending is Ending.EXPIRED])


class TellsSettledLeasesAsExpired(FaultyDriver):
    """The last rows of the ledger are told, however their leases ended."""

    def reserve(self, request: r.Reserve) -> Reserved:
        """Tell the last row as well."""
        reserved = super().reserve(request)
        return replace(reserved, ended=reserved.ended or self._space.ledger.rows[-1:])


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    ReapsLate,
    ReapsEarly,
    ReapsValidLeases,
    ReapsNewestFirst,
    ReserveReapsWithoutLimit,
    ReapIgnoresQueues,
    ReapIgnoresWorker,
    CountsValidLeasesAsExpired,
    ReserveForgetsExpiredLeases,
    TellsExpiredLeasesAgain,
    TellsSettledLeasesAsExpired,
)
