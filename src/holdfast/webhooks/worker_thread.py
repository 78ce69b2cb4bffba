"""``WebhookThread``: delivers callbacks beside a worker, in threads of the worker's own process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.drivers.store import Store
from holdfast.settings import Settings
from holdfast.webhooks.runner import WebhookRunner
from holdfast.worker.observer import WorkerObserver


class WebhookThread(WorkerObserver):
    """Delivers from the start of a worker until it is asked to stop."""

    def __init__(self, store: Store, settings: Settings, *, space: str) -> None:
        """Raise as ``WebhookRunner`` does, before the worker starts."""
        self._store = store
        self._settings = settings
        self._space = space
        self._runner: WebhookRunner | None = None
        WebhookRunner(store, settings, space=space, name="check")

    def started(self, worker: str, queues: Sequence[str]) -> None:
        """Start the threads. The child processes of the worker exist already: no fork copies them."""
        del queues
        self._runner = WebhookRunner(self._store, self._settings, space=self._space, name=worker)
        self._runner.start()

    def stopped(self, worker: str, statuses: Mapping[str, int]) -> None:
        """Wait for the deliveries under way, for some seconds. The last jobs of the worker have ended by now."""
        del worker, statuses
        if self._runner is not None:
            self._runner.stop()
