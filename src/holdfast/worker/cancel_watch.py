"""The cancel watch: one thread that learns of cancel requests before the next heartbeat.

It waits for a request in the store, and then lets the heartbeat extend the leases: the answers say
which jobs have to stop. Jobs that end within a second are not watched, so that short jobs pay nothing.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from holdfast.drivers.requests import WaitForCancel
from holdfast.drivers.store import Store
from holdfast.errors import StoreError
from holdfast.log import events
from holdfast.log.records import log_failure
from holdfast.model import bounds
from holdfast.worker.heartbeat import Heartbeat


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelWatchTiming:
    """The time constants of a cancel watch."""

    min_running_seconds: float = 1.0  # a job is watched after this time
    look_seconds: float = 0.5  # between two looks at which jobs are running
    pause_seconds: float = 1.0  # after a request or a failure: quick requests cause one heartbeat in this time


class CancelWatch:
    """Requests a heartbeat when one of the running jobs has to be cancelled."""

    def __init__(self, driver: Store, heartbeat: Heartbeat, timing: CancelWatchTiming = CancelWatchTiming()) -> None:
        self._driver = driver
        self._timing = timing
        self._heartbeat = heartbeat
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch_until_stopped, name="holdfast-cancel", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End the thread. After ``timeout`` seconds it is left behind, in a call that the store does not answer."""
        self._stop.set()
        self._thread.join(timeout)

    def _watch_until_stopped(self) -> None:
        while not self._stop.is_set():
            pause = 0.0
            running = self._heartbeat.running_jobs(longer_than_seconds=self._timing.min_running_seconds)
            job_ids = running[: bounds.MAX_BATCH_ITEMS]
            if not job_ids:
                pause = self._timing.look_seconds
            elif self._is_cancel_requested(job_ids):
                self._heartbeat.beat_now()
                pause = self._timing.pause_seconds
            self._stop.wait(pause)

    def _is_cancel_requested(self, job_ids: list[str]) -> bool:
        try:
            return self._driver.do(WaitForCancel(job_ids=job_ids, timeout=self._timing.look_seconds))
        except StoreError:  # the heartbeat reports it, too
            self._stop.wait(self._timing.pause_seconds)
        except Exception as error:  # noqa: BLE001 - a bug must not end this thread
            log_failure(events.CANCEL_WATCH_FAILED, error)
            self._stop.wait(self._timing.pause_seconds)
        return False
