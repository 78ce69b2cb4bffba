"""Faulty drivers: settling and leasing the next jobs of domains in one call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from holdfast.errors import LeaseError
from holdfast.model.isolation import Isolation
from holdfast.model.lease import Reservation
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Settlement
from holdfast.testing.drivers.faulty.faulty_driver import FaultyDriver

Answers = tuple[list[LeaseError | None], list[Reservation]]


class _ChangedSettings(FaultyDriver):
    """Follows jobs under other settings than those that are stored."""

    def _with_settings(
        self, change: Callable[[QueueSettings], QueueSettings], settlements: Sequence[Settlement], **options: Any
    ) -> Answers:
        with self._lock:
            stored = dict(self._space.settings)
            self._space.settings = {key: change(settings) for key, settings in stored.items()}
            answers = super().settle_and_reserve(settlements, **options)
            self._space.settings = stored
        return answers


class FollowsPausedQueue(_ChangedSettings):
    """The next job of a domain is leased although its queue is paused."""

    def settle_and_reserve(self, settlements: Sequence[Settlement], **options: Any) -> Answers:
        """Ignore pauses."""
        return self._with_settings(
            lambda settings: replace(settings, paused_until=None, held_until=None), settlements, **options
        )


class FollowsBeyondTheLimit(_ChangedSettings):
    """The next job of a domain is leased although its queue has no free place."""

    def settle_and_reserve(self, settlements: Sequence[Settlement], **options: Any) -> Answers:
        """Ignore the concurrency limits."""
        return self._with_settings(
            lambda settings: replace(settings, max_inflight=None, key_max_inflight=None), settlements, **options
        )


class FollowsWithoutRate(FaultyDriver):
    """A followed job is not counted against the rate of its queue."""

    def settle_and_reserve(self, settlements: Sequence[Settlement], **options: Any) -> Answers:
        """Restore the buckets."""
        with self._lock:
            buckets = dict(self._space.buckets)
            answers = super().settle_and_reserve(settlements, **options)
            self._space.buckets = buckets
        return answers


class FollowsPastHigherPriority(FaultyDriver):
    """The next job of a domain is leased although a job of a higher priority is due in another queue."""

    def settle_and_reserve(
        self, settlements: Sequence[Settlement], *, queues: Sequence[str], **options: Any
    ) -> Answers:
        """Look only at the queues of the settled jobs."""
        rows = [self._space.rows.get(settlement.lease.job_id) for settlement in settlements]
        own = [queue for queue in queues if any(row is not None and row.job.queue == queue for row in rows)]
        return super().settle_and_reserve(settlements, queues=own or queues, **options)


class FollowsAnyType(FaultyDriver):
    """The next job of a domain is leased although the caller did not ask for its type."""

    def settle_and_reserve(
        self, settlements: Sequence[Settlement], *, types: Collection[str] | None = None, **options: Any
    ) -> Answers:
        """Ignore the types."""
        del types
        return super().settle_and_reserve(settlements, **options)


class FollowsIsolatedJobs(FaultyDriver):
    """A job that must run alone is leased beside others."""

    def settle_and_reserve(
        self, settlements: Sequence[Settlement], *, isolation: Isolation = Isolation.SHARE, **options: Any
    ) -> Answers:
        """Ignore the isolation."""
        del isolation
        return super().settle_and_reserve(settlements, **options)


class FollowsRepeats(FaultyDriver):
    """A repeated settlement leases the next job of its domain."""

    def settle_and_reserve(self, settlements: Sequence[Settlement], **options: Any) -> Answers:
        """Reserve if nothing was followed and nothing refused."""
        answers, reservations = super().settle_and_reserve(settlements, **options)
        if not reservations and answers == [None]:
            names = ("queues", "lease_for", "worker", "types", "now")
            given = {name: options[name] for name in names if name in options}
            jobs = [self._space.rows[settlement.lease.job_id].job for settlement in settlements]
            if all(job.state.has_ended and job.domain is not None for job in jobs):
                reservations = self.reserve(given.pop("queues"), limit=1, **given)
        return answers, reservations


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    FollowsPausedQueue,
    FollowsBeyondTheLimit,
    FollowsWithoutRate,
    FollowsPastHigherPriority,
    FollowsAnyType,
    FollowsIsolatedJobs,
    FollowsRepeats,
)
