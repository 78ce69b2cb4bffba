"""Faulty drivers: spaces, the clock, close, validation and declined features."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.drivers.memory.driver import MemoryStore
from holdfast.drivers.validation import Validation
from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued
from holdfast.model.registry import Change
from tests.drivers.faulty.faulty_driver import FaultyDriver


class SpacesShared(FaultyDriver):
    """All spaces are the same space."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        caller_clock: bool = False,
        space: str = "main",
        store: MemoryStore | None = None,
    ) -> None:
        del space
        super().__init__(clock, caller_clock=caller_clock, store=store)


class _AcceptsAnyInstant(Validation):
    def caller_now(self, given: int | None) -> int | None:
        return given


class CallerClockAlwaysAccepted(FaultyDriver):
    """``now`` is accepted by a store that was opened without a caller's clock."""

    validation = _AcceptsAnyInstant


class CloseIgnored(FaultyDriver):
    """A closed store still answers."""

    def close(self) -> None:
        """Do nothing."""


class _ChecksOnlyTheState(Validation):
    def check_enqueue(self, jobs: Sequence[JobRecord]) -> None:
        if any(job.state is not State.READY for job in jobs):
            raise InvalidInput("state", wanted="ready", got="another")


class InvalidRecordsAccepted(FaultyDriver):
    """Invalid records are stored."""

    validation = _ChecksOnlyTheState


class DeclinedFeaturesAccepted(FaultyDriver):
    """A feature that the driver declines is accepted and ignored."""

    def joined(self, connection: object) -> FaultyDriver:  # type: ignore[override]  # the memory driver raises
        """Ignore the transaction of the caller."""
        del connection
        return self


class WebhooksForgotten(FaultyDriver):
    """A job with a webhook is stored without it: nobody is called when the job has ended."""

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """Store the jobs without their webhooks."""
        return super().enqueue(
            [replace(job, webhook=None) for job in jobs],
            writes=writes,
            replace_dead_before=replace_dead_before,
            now=now,
        )


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    SpacesShared,
    CallerClockAlwaysAccepted,
    CloseIgnored,
    InvalidRecordsAccepted,
    DeclinedFeaturesAccepted,
    WebhooksForgotten,
)
