"""Waiting for work: polls the store less and less often, and returns early when a notification arrives."""

from __future__ import annotations

import secrets

from holdfast.clock import SECOND, monotonic
from holdfast.drivers.postgres.arrays import pack_texts
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.listen import Listener
from holdfast.drivers.requests import Wait, distinct


class Waiter:
    """Waiting in one space."""

    def __init__(self, database: Database, listener: Listener | None) -> None:
        self._database = database
        self._listener = listener
        self._id = secrets.randbits(63)  # notifications are counted by this object

    def mark(self) -> tuple[int, int]:
        """Return the mark of a reserve that begins now: which notifications it has not missed."""
        return self._id, self._count_notifications()

    def wait(self, request: Wait) -> None:
        """Return when a job is due, when a lease may have expired, or after the timeout.

        A job may be due and yet not be reserved: its queue is paused or full, or this worker does not know its type. So
        jobs that are due already end a wait with a mark, that of a reserve which did not take them, only after a pause.
        """
        self._database.pool.check_open()
        timing = self._database.timing
        deadline, pause = monotonic() + request.timeout, timing.first_poll_seconds
        if self._listener is not None and request.timeout > 0:
            self._listener.start()
        if self._has_missed_notifications(request.since):
            return
        names, was_refused = pack_texts(distinct(request.queues)), bool(request.since)
        while (left := deadline - monotonic()) > 0:
            seen = self._count_notifications()
            [(due_in,)] = self._database.call("next_due", names, None)
            if due_in is not None and due_in <= 0:
                if was_refused:
                    self._sleep(seen, min(left, timing.max_poll_seconds))
                return
            was_refused = False
            until_due = left if due_in is None else due_in / SECOND
            self._sleep(seen, min(left, until_due, pause))
            if self._count_notifications() != seen:
                return  # a reserve that finds nothing costs no more than another poll
            has_listener = self._listener is not None and self._listener.is_alive
            pause = min(2 * pause, timing.longest_poll_seconds(has_listener=has_listener))

    def _has_missed_notifications(self, since: tuple[int, ...]) -> bool:
        return since[:1] == (self._id,) and since != self.mark()

    def _count_notifications(self) -> int:
        return 0 if self._listener is None else self._listener.count(self._database.space)

    def _sleep(self, seen: int, seconds: float) -> None:
        """Sleep until a notification arrives, at most ``seconds``. Raises ``StoreClosed`` if the store closes."""
        if self._listener is None:
            self._database.pool.pause(seconds)
        else:
            self._listener.wait(self._database.space, seen, seconds)
        self._database.pool.check_open()
