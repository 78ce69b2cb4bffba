"""Faulty drivers: reap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.drivers.contract import REAP_LIMIT
from holdfast.drivers.memory.rows import Row
from holdfast.model.lease import Reservation
from holdfast.model.ledger import LedgerRow
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

    def reserve(self, queues: Sequence[str], **options: Any) -> list[Reservation]:
        """End all expired leases first."""
        while super().reap(queues, now=options.get("now")) == REAP_LIMIT:
            pass
        return super().reserve(queues, **options)


class ReapIgnoresQueues(FaultyDriver):
    """A reap of some queues ends leases in all queues."""

    def reap(self, queues: Sequence[str] | None = None, **options: Any) -> int:
        """Reap all queues."""
        self._validation.check_reap(queues, None, 1)
        return super().reap(None, **options)


class ReapIgnoresWorker(FaultyDriver):
    """A reap for a dead worker ends the leases of all workers."""

    def reap(self, queues: Sequence[str] | None = None, **options: Any) -> int:
        """Reap for every worker that has a name."""
        if options.get("worker"):
            for other in {row.worker for row in self._space.rows.values() if row.worker}:
                super().reap(queues, **{**options, "worker": other})
        return super().reap(queues, **options)


class CountsValidLeasesAsExpired(FaultyDriver):
    """Every lease counts as expired."""

    def count_expired_leases(self, *, expired_for: int = 0, now: int | None = None) -> int:
        """Count all leases."""
        del expired_for, now
        return sum(len(leases) for leases in self._space.leases.values())


class ReserveForgetsExpiredLeases(FaultyDriver):
    """The leases that a reserve ended are not told."""

    def reserve(self, queues: Sequence[str], **options: Any) -> list[Reservation]:
        """Forget them."""
        reservations = super().reserve(queues, **options)
        super().take_expired()
        return reservations


class TellsExpiredLeasesAgain(FaultyDriver):
    """Expired leases are told every time."""

    def take_expired(self) -> list[LedgerRow]:
        """Remember them again."""
        rows = super().take_expired()
        if rows:
            self._expired.add(rows)
        return rows


class TellsSettledLeasesAsExpired(FaultyDriver):
    """The last rows of the ledger are told, however their leases ended."""

    def take_expired(self) -> list[LedgerRow]:
        """Return the last row as well."""
        return super().take_expired() or self.ledger_tail(limit=1).items


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
