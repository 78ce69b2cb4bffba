"""Faulty drivers: spaces, the clock, close, validation and declined features."""

from __future__ import annotations

from typing import TypeVar

from msgspec import structs
from msgspec.structs import replace

from holdfast.drivers import requests as r
from holdfast.drivers.answers import Stored
from holdfast.drivers.memory.engine import MemoryStore
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput
from holdfast.model.job import State
from tests.drivers.faulty.faulty_driver import FaultyDriver

A = TypeVar("A")


class SpacesShared(FaultyDriver):
    """All spaces are the same space."""

    def __init__(self, store: MemoryStore, *, space: str = "main", caller_clock: bool = False) -> None:
        del space
        super().__init__(store, caller_clock=caller_clock)


class _AcceptsAnyInstant(Store):
    def do(self, request: r.Request[A]) -> A:
        request.check(self.capabilities)
        return self.engine.execute(request)


class CallerClockAlwaysAccepted(FaultyDriver):
    """``now`` is accepted by a store that was opened without a caller's clock."""

    store_type = _AcceptsAnyInstant


class CloseIgnored(FaultyDriver):
    """A closed store still answers."""

    def close(self) -> None:
        """Do nothing."""


class _ChecksOnlyTheState(Store):
    def do(self, request: r.Request[A]) -> A:
        if not isinstance(request, r.Enqueue):
            request.check(self.capabilities)
        elif any(job.state is not State.READY for job in request.jobs):
            raise InvalidInput("state", wanted="ready", got="another")
        return self.engine.execute(request)


class InvalidRecordsAccepted(FaultyDriver):
    """Invalid records are stored."""

    store_type = _ChecksOnlyTheState


class _IgnoresTransactions(Store):
    def joined(self, connection: object) -> Store:
        del connection
        return self


class DeclinedFeaturesAccepted(FaultyDriver):
    """A feature that the driver declines is accepted and ignored."""

    store_type = _IgnoresTransactions


class WebhooksForgotten(FaultyDriver):
    """A job with a webhook is stored without it: nobody is called when the job has ended."""

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Store the jobs without their webhooks."""
        return super().enqueue(structs.replace(request, jobs=[replace(job, webhook=None) for job in request.jobs]))


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    SpacesShared,
    CallerClockAlwaysAccepted,
    CloseIgnored,
    InvalidRecordsAccepted,
    DeclinedFeaturesAccepted,
    WebhooksForgotten,
)
