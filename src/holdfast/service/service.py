"""``Service``: what all requests share. One per process and event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.artifacts.folder import BlobFolder
from holdfast.clock import monotonic
from holdfast.drivers import requests as r
from holdfast.drivers.store import Store
from holdfast.errors import HoldfastError, StoreMoved
from holdfast.model.request import DEFAULT_QUEUE
from holdfast.observability.logs import log_expired
from holdfast.service.artifact_transfers import ArtifactTransfers
from holdfast.service.auth.providers import open_authenticator
from holdfast.service.driver.answers import CallAnswers
from holdfast.service.event_stream import EventStreams
from holdfast.service.limits import RequestCount, UnsentAnswers
from holdfast.service.metrics import HttpMetrics
from holdfast.service.rate_limit import RateLimit
from holdfast.service.tenants.queue_counts import QueueCounter
from holdfast.service.tenants.store_calls import StoreCalls
from holdfast.service.tenants.tenant import Tenant
from holdfast.service.timing import ServiceTiming
from holdfast.settings import Settings
from holdfast.webhooks.runner import WebhookRunner
from holdfast.worker.expired_leases import ExpiredLease
from holdfast.worker.maintenance import Maintenance

if TYPE_CHECKING:
    from holdfast.observability.prometheus import PrometheusMetrics

STOP_POLL_SECONDS = 0.01


class Service:
    """The store, the settings, the tenants, and what runs in the background."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        space: str,
        prometheus: PrometheusMetrics | None = None,
        timing: ServiceTiming = ServiceTiming(),
    ) -> None:
        """Raise ``InvalidInput`` for settings that cannot be used."""
        self.store = store
        self.settings = settings
        self.serve = settings.serve
        self.space = space
        self.timing = timing
        self.calls = StoreCalls(
            settings.serve.threads, seconds=timing.store_seconds, queue_seconds=timing.batch_queue_seconds
        )
        self.metrics = HttpMetrics(store, prometheus)
        self.authenticator = open_authenticator(
            settings.serve,
            space=space,
            check_seconds=timing.issuer_check_seconds,
            on_failure=self.metrics.count_token_failure,
        )
        self.requests = RequestCount(settings.serve.max_requests)
        self.unsent = UnsentAnswers()
        self.rate_limit = RateLimit(settings.serve.rate)
        self.artifacts = None if settings.artifacts is None else ArtifactTransfers(BlobFolder(settings.artifacts))
        name = f"http:{socket.gethostname()}:{os.getpid()}"
        self.webhooks = WebhookRunner(store, settings, space=space, name=name, all_spaces=True)
        self.event_streams = EventStreams(timing)
        self.answers = CallAnswers()
        self._draining: asyncio.Event | None = None
        self._tenants: dict[str, Tenant] = {}
        self._counters: dict[str, QueueCounter] = {}
        self._background: asyncio.Task[None] | None = None
        self.calls_are_left = False  # after ``stop``

    async def start(self) -> None:
        """Start what runs in the background. All spaces of the store are repaired, also if nobody claims in them."""
        self._draining = asyncio.Event()
        self.tenant(self.space)
        self.metrics.start()
        self.webhooks.start()
        self._background = asyncio.create_task(self._maintain())

    async def stop(self) -> None:
        """Stop what runs in the background. The store stays open.

        Calls that the store does not answer are left behind after ``stop_seconds``: ``calls_are_left`` says so.
        """
        self.drain()
        if self._background is not None:
            self._background.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._background
        for tenant in self._tenants.values():
            await tenant.stop()
        self.authenticator.close()
        stops = [self.webhooks.stop, self.metrics.stop, self.calls.close]
        if self.artifacts is not None:
            stops.append(self.artifacts.close)
        threads = [threading.Thread(target=stop, name="holdfast-stop", daemon=True) for stop in stops]
        for thread in threads:
            thread.start()
        deadline = monotonic() + self.timing.stop_seconds
        while (left := any(thread.is_alive() for thread in threads)) and monotonic() < deadline:  # noqa: ASYNC110 - threads
            await asyncio.sleep(STOP_POLL_SECONDS)
        self.calls_are_left = left

    def drain(self) -> None:
        """Answer the requests that wait: the service is about to stop."""
        self.event_streams.stop()
        if self._draining is not None:
            self._draining.set()

    @property
    def is_draining(self) -> bool:
        """Whether the service is about to stop."""
        return self._draining is not None and self._draining.is_set()

    async def ends(self, disconnected: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Return when a waiting request should end: its client has gone, or the service stops."""
        assert self._draining is not None
        tasks = {asyncio.ensure_future(disconnected()), asyncio.ensure_future(self._draining.wait())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    def tenant(self, space: str) -> Tenant:
        """Return what works in a space."""
        found = self._tenants.get(space)
        if found is None:
            store = self.store if space == self.space else self.store.space(space)
            found = self._tenants[space] = Tenant(
                store, space, self.settings, self.calls, self.requests, on_ended=self.webhooks.wake
            )
            self._counters[space] = QueueCounter(store, self.calls, min_age_seconds=self.timing.count_age_seconds)
        return found

    def counter(self, space: str) -> QueueCounter:
        """Return what counts the tasks of a space."""
        self.tenant(space)
        return self._counters[space]

    async def readiness(self) -> tuple[bool, list[str]]:
        """Return whether the service is ready, and what fails: one of several ways to check tokens may fail."""
        if self.is_draining:
            return False, ["the service is about to stop"]
        failure, failing = await asyncio.gather(
            self._store_failure(), self.authenticator.failing(self.timing.probe_seconds)
        )
        reasons = [] if failure is None else [failure]
        if failing:
            reasons.append(f"tokens cannot be checked: {', '.join(failing)}")
        return failure is None and self.authenticator.can_authenticate(failing), reasons

    async def _store_failure(self) -> str | None:
        try:
            async with asyncio.timeout(self.timing.probe_seconds):
                await self.calls.settle(self.store.do, r.Settings(queue=DEFAULT_QUEUE))
        except TimeoutError:
            return f"the store has not answered within {self.timing.probe_seconds:.0f} s"
        except StoreMoved:
            return "the SQLite file was moved, deleted or replaced: put it back, or restart the service"
        except HoldfastError as error:  # no text of the error: it may name hosts and users
            return f"the store failed: {type(error).__name__}"
        return None

    async def _maintain(self) -> None:
        """End expired leases and remove old rows in every space of the store, also if nobody claims in it."""
        loop = asyncio.get_running_loop()

        def on_reaped(space: str, leases: int, expired: Sequence[ExpiredLease]) -> None:
            del leases
            log_expired(expired, space=space)
            loop.call_soon_threadsafe(self._notify_claims, space)

        maintenance = Maintenance(
            self.store,
            keep_ended=self.settings.chosen_keep_ended,
            keep_ledger=self.settings.chosen_keep_ledger,
            keep_dead=self.settings.keep_dead,
            on_reaped=on_reaped,
            owns_all_spaces=True,
            blobs=None if self.artifacts is None else self.artifacts.blobs,
            timing=self.timing.maintenance,
        )

        def maintain() -> None:
            maintenance.run_due()
            for tenant in list(self._tenants.values()):  # their claims, and calls of drivers, end expired leases, too
                maintenance.report_expired(tenant.store)

        while True:
            await asyncio.sleep(self.timing.maintenance_seconds)
            await loop.run_in_executor(self.calls.background, maintain)

    def _notify_claims(self, space: str) -> None:
        """Look for work for the claims that wait in a space."""
        tenant = self._tenants.get(space)
        if tenant is not None:
            tenant.resumed()
