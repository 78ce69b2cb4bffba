"""When a worker that holds leases makes room for an isolated job, and when it passes over it.

An isolated job is reserved only by a worker that holds no other lease (L7). A busy worker makes room: it reserves no
jobs behind the isolated one until its own jobs have ended. If one of them takes long, the other children would be idle
meanwhile. So the worker waits for a limited time, then passes over isolated jobs for nine times as long, and waits
twice as long the next time. At most a tenth of its time is spent on waiting, and an isolated job waits at most about
twenty times as long as the longest attempt. The first wait is a small part of a lease: after a worker that was slow for
a moment, an isolated job is passed over for less than half a lease.
"""

from __future__ import annotations

from holdfast.model.isolation import Isolation

MAX_FIRST_WAIT_SECONDS = 1.0
FIRST_WAITS_PER_LEASE = 20  # the first wait is this part of a lease, if that is shorter
SKIP_FACTOR = 9  # isolated jobs are passed over for this many times the last wait
WAIT_GROWTH = 2


class RoomMaker:
    """The decisions of one worker. Instants are monotonic seconds."""

    def __init__(self, lease_seconds: float) -> None:
        self._first_wait_seconds = min(MAX_FIRST_WAIT_SECONDS, lease_seconds / FIRST_WAITS_PER_LEASE)
        self._wait_seconds = self._first_wait_seconds
        self._waiting_since: float | None = None
        self._skip_until = 0.0

    def choose(self, *, holds_leases: bool, now: float) -> Isolation:
        """Return what the next reserve does with isolated jobs."""
        if not holds_leases:
            self._waiting_since, self._wait_seconds, self._skip_until = None, self._first_wait_seconds, 0.0
            return Isolation.ALONE
        if now < self._skip_until:
            return Isolation.SKIP
        has_waited = self._waiting_since is not None and now - self._waiting_since >= self._wait_seconds
        return Isolation.SKIP if has_waited else Isolation.STOP

    def add_answer(self, isolation: Isolation, *, is_empty: bool, now: float) -> None:
        """Take the answer to a reserve into account.

        An empty answer to ``STOP`` means that an isolated job comes first, or that there is no job. Which of the two it
        was shows the answer to the ``SKIP`` after the wait.
        """
        if isolation is Isolation.STOP and is_empty:
            self._waiting_since = now if self._waiting_since is None else self._waiting_since
        elif isolation is Isolation.SKIP and now >= self._skip_until:  # the wait is over
            self._waiting_since = None
            if not is_empty:
                self._skip_until = now + SKIP_FACTOR * self._wait_seconds
                self._wait_seconds *= WAIT_GROWTH
        elif not is_empty:
            self._waiting_since = None
