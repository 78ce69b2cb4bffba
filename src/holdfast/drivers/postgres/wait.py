"""Waiting for work: polls the store less and less often, and returns early when a notification arrives."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from holdfast.clock import SECOND, monotonic
from holdfast.drivers.postgres.arrays import pack_texts
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.listen import Listener


class Waiter:
    """``Driver.wait`` for one space."""

    def __init__(self, database: Database, listener: Listener | None) -> None:
        self._database = database
        self._listener = listener
        self._fruitless = threading.local()  # .waits of this thread that ended with due work and no reservation since

    def note_reservation(self) -> None:
        """Record that this thread has reserved a job."""
        self._fruitless.waits = 0

    def wait(self, queues: Sequence[str], timeout: float) -> None:
        """Return when a job is due, when a lease may have expired, or after ``timeout`` seconds.

        A job may be due and yet not be reserved: its queue is paused or full, or this worker does not know its type.
        For such a job only the first wait returns at once; the next ones sleep longer and longer.
        """
        self._database.pool.check_open()
        timing = self._database.timing
        deadline, pause = monotonic() + timeout, timing.first_poll_seconds
        if self._listener is not None and timeout > 0:
            self._listener.start()
        names = pack_texts(queues)
        while (left := deadline - monotonic()) > 0:
            seen = self._count_notifications()
            [(due_in,)] = self._database.call("next_due", names, None)
            if due_in is not None and due_in <= 0:
                waits = getattr(self._fruitless, "waits", 0)
                self._fruitless.waits = waits + 1
                if waits:
                    longer = timing.first_poll_seconds * 2 ** min(waits, 10)
                    self._sleep(seen, min(left, longer, timing.max_poll_seconds))
                return
            until_due = left if due_in is None else due_in / SECOND
            self._sleep(seen, min(left, until_due, pause))
            if self._count_notifications() != seen:
                return  # a reserve that finds nothing costs no more than another poll
            has_listener = self._listener is not None and self._listener.is_alive
            pause = min(2 * pause, timing.longest_poll_seconds(has_listener=has_listener))

    def _count_notifications(self) -> int:
        return 0 if self._listener is None else self._listener.count(self._database.space)

    def _sleep(self, seen: int, seconds: float) -> None:
        """Sleep until a notification arrives, at most ``seconds``. Raises ``StoreClosed`` if the store closes."""
        if self._listener is None:
            self._database.pool.pause(seconds)
        else:
            self._listener.wait(self._database.space, seen, seconds)
        self._database.pool.check_open()
