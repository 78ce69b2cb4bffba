"""The jobs that a worker has reserved and not settled, and what it may reserve beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.clock import monotonic
from holdfast.model.isolation import Isolation
from holdfast.model.lease import Reservation
from holdfast.worker.isolation import RoomMaker
from holdfast.worker.job_source import Demand

MAX_HELD_BYTES = 32 << 20  # of the payloads of all held jobs, unless a child is idle


class HeldJobs:
    """Counts jobs and bytes. One thread adds, another one removes: each writes only its own counters."""

    def __init__(self, lease_seconds: float) -> None:
        self.reserved = 0  # jobs so far
        self._settled = 0
        self._reserved_bytes = 0
        self._settled_bytes = 0
        self._runs_isolated = False  # the job that was reserved last runs alone
        self._has_domains = False  # some of the jobs since the last time when none was held
        self._room_maker = RoomMaker(lease_seconds)

    @property
    def count(self) -> int:
        """How many jobs are held."""
        return self.reserved - self._settled

    @property
    def may_block_domains(self) -> bool:
        """Whether a held job may have a domain, whose next job cannot be reserved before this one is settled."""
        return self._has_domains and self.count > 0

    def limit(self, useful: int, free_places: int) -> int:
        """Return how many of the ``useful`` jobs may be reserved. ``free_places`` of them could begin now."""
        if self._runs_isolated and self.count:
            return 0
        return useful if self._bytes_left() > 0 else min(useful, free_places, 1)

    def demand(self, limit: int, free_places: int, *, short_jobs: bool) -> Demand:
        """Return what the next reserve asks for."""
        return Demand(
            limit=limit,
            max_bytes=max(1, self._bytes_left()),
            prefetch=limit > free_places,
            isolation=self._room_maker.choose(holds_leases=self.count > 0, now=monotonic()),
            short_jobs=short_jobs,
        )

    def add(self, reservations: Sequence[Reservation], isolation: Isolation) -> None:
        """Add the answer to a reserve, which was asked for with this isolation."""
        self._room_maker.add_answer(isolation, is_empty=not reservations, now=monotonic())
        self._runs_isolated = len(reservations) == 1 and reservations[0].isolated
        self._has_domains = (self._has_domains and self.count > 0) or any(
            reservation.job.domain is not None for reservation in reservations
        )
        self._reserved_bytes += _payload_bytes(reservations)
        self.reserved += len(reservations)

    def remove(self, reservations: Sequence[Reservation]) -> None:
        """Remove jobs that are settled."""
        self._settled_bytes += _payload_bytes(reservations)
        self._settled += len(reservations)

    def _bytes_left(self) -> int:
        return MAX_HELD_BYTES - (self._reserved_bytes - self._settled_bytes)


def _payload_bytes(reservations: Iterable[Reservation]) -> int:
    return sum(len(reservation.job.payload) for reservation in reservations)
