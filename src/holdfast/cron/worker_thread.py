"""``CronThread``: a scheduler beside a worker, in a thread of the worker's own process."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.cron.runner import CronRunner
from holdfast.cron.store import ScheduleStore
from holdfast.worker.observer import WorkerObserver

if TYPE_CHECKING:
    from holdfast.app import Holdfast

STOP_SECONDS = 2.0  # that a worker waits for its scheduler when it ends


class CronThread(WorkerObserver):
    """Fires schedules from the start of a worker until it is asked to stop: a worker that drains fires nothing."""

    def __init__(self, app: Holdfast) -> None:
        """Raise as ``CronRunner`` does, before the worker starts."""
        app.declared_schedules()
        ScheduleStore(app.driver)
        self._app = app
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def started(self, worker: str, queues: Sequence[str]) -> None:
        """Start the thread. The child processes of the worker exist already: no fork copies it."""
        del queues
        self._stop.clear()
        runner = CronRunner(self._app, name=worker)
        self._thread = threading.Thread(target=runner.run_loop, args=(self._stop,), name="holdfast-cron", daemon=True)
        self._thread.start()

    def stopping(self) -> None:
        """Fire nothing more."""
        self._stop.set()

    def stopped(self, worker: str, statuses: Mapping[str, int]) -> None:
        """Wait for the thread. If the store does not answer, it is left behind: a fire is atomic."""
        del worker, statuses
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
