"""Waiting for cancel requests: a notification wakes the thread; without a listener the store is polled."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import NamedTuple

from holdfast.clock import monotonic
from holdfast.drivers.postgres import admin
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.listen import Listener


class _Look(NamedTuple):
    job_ids: frozenset[str]
    seen: int  # notifications before it
    at: float  # monotonic seconds


class CancelWaiter:
    """Waiting for cancel requests of one space."""

    def __init__(self, database: Database, listener: Listener | None) -> None:
        self._database = database
        self._listener = listener
        self._topic = f"cancel {database.space}"  # the payload of the notifications of ``cancel``
        self._looks = threading.local()  # .last: the last look of this thread that found no request

    def notify_own_threads(self) -> None:
        """Wake the waiting threads of this process without a round trip."""
        if self._listener is not None:
            self._listener.notify(self._topic)

    def wait(self, job_ids: Collection[str], timeout: float) -> bool:
        """Return when there is a request, or after ``timeout`` seconds.

        A thread that calls this again and again for the same jobs reads them only after a notification, and now and
        then, because a notification may be lost.
        """
        self._database.pool.check_open()
        deadline = monotonic() + timeout
        if self._listener is not None:
            self._listener.start()
        while True:
            seen = self._count_notifications()
            if self._is_look_due(job_ids, seen):
                if admin.is_cancel_requested(self._database, job_ids):
                    self._looks.last = None
                    return True
                self._looks.last = _Look(frozenset(job_ids), seen, monotonic())
            left = deadline - monotonic()
            if left <= 0:
                return False
            self._sleep(seen, min(left, self._database.timing.max_poll_seconds))

    def _is_look_due(self, job_ids: Collection[str], seen: int) -> bool:
        last: _Look | None = getattr(self._looks, "last", None)
        if last is None or last.seen != seen or not last.job_ids.issuperset(job_ids):
            return True
        has_listener = self._listener is not None and self._listener.is_alive
        return monotonic() - last.at >= self._database.timing.longest_poll_seconds(has_listener=has_listener)

    def _count_notifications(self) -> int:
        return 0 if self._listener is None else self._listener.count(self._topic)

    def _sleep(self, seen: int, seconds: float) -> None:
        """Sleep until a notification arrives, at most ``seconds``. Raises ``StoreClosed`` if the store closes."""
        if self._listener is None:
            self._database.pool.pause(seconds)
        else:
            self._listener.wait(self._topic, seen, seconds)
        self._database.pool.check_open()
