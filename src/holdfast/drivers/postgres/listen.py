"""Notifications of new jobs and of cancel requests: LISTEN on a direct connection, in a thread.

A notification is only a hint; every waiting worker also polls. Some connections deliver no notifications: a connection
that is dead, or one to a pooling proxy, which runs LISTEN in a session that it does not read. The listener detects this
by sending a notification to itself (an echo), and reconnects if the echo does not arrive.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from collections import Counter
from contextlib import suppress

import psycopg

from holdfast.clock import monotonic
from holdfast.drivers.postgres.connections import Connection, ConnectionPool
from holdfast.drivers.postgres.timing import PostgresTiming

ECHO = "echo "


def channel_of(schema: str) -> str:
    """Return the channel of a schema. The payload of a notification is its topic.

    The topic of new jobs is the name of their space. That of cancel requests is "cancel" and the name of the space.
    """
    return f"holdfast_{hashlib.blake2b(schema.encode(), digest_size=8).hexdigest()}"


class Listener:
    """Counts the notifications of each topic. The first wait starts its thread; closing the store stops it."""

    def __init__(self, pool: ConnectionPool, conninfo: str | None, schema: str, timing: PostgresTiming) -> None:
        self._pool = pool
        self._conninfo = conninfo
        self._timing = timing
        self.channel = channel_of(schema)
        self._reset()

    def _reset(self) -> None:
        self._notified = threading.Condition()
        self._counts: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._pid = os.getpid()
        self.is_alive = False  # whether the last echo arrived

    def start(self) -> None:
        """Start the thread, once per process."""
        if os.getpid() != self._pid:  # a forked child has neither the thread nor usable locks
            self._reset()
        with self._starting:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="holdfast-listen", daemon=True)
                self._thread.start()

    def count(self, topic: str) -> int:
        """Return how many notifications of a topic were received so far."""
        return self._counts[topic]

    def wait(self, topic: str, seen: int, timeout: float) -> None:
        """Block until the count of a topic differs from ``seen``, at most ``timeout`` seconds."""
        with self._notified:
            self._notified.wait_for(lambda: self._stop.is_set() or self._counts[topic] != seen, timeout)

    def notify(self, topic: str) -> None:
        """Wake the waiting threads of this process, for a notification or for a call of this process."""
        with self._notified:
            self._counts[topic] += 1
            self._notified.notify_all()

    def stop(self) -> None:
        """Wake all waiting threads and end the listener's thread."""
        self._stop.set()
        with self._notified:
            self._notified.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(self._timing.echo_timeout_seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            with suppress(psycopg.Error, OSError), self._pool.open(self._conninfo) as connection:
                self._listen(connection)
            self.is_alive = False
            self._stop.wait(self._timing.reconnect_delay_seconds)

    def _listen(self, connection: Connection) -> None:
        """Count notifications until the listener is stopped or an echo does not arrive."""
        connection.execute(f"LISTEN {self.channel}".encode())
        expected_echo: str | None = None
        deadline = 0.0  # for the echo that is expected, or for sending the next one
        while not self._stop.is_set():
            if expected_echo is None and monotonic() >= deadline:
                expected_echo, deadline = ECHO + secrets.token_hex(8), monotonic() + self._timing.echo_timeout_seconds
                connection.execute("SELECT pg_notify(%s, %s)", [self.channel, expected_echo])
            for notification in connection.notifies(timeout=self._timing.stop_poll_seconds, stop_after=1):
                if notification.payload == expected_echo:
                    expected_echo, self.is_alive = None, True
                    deadline = monotonic() + self._timing.echo_interval_seconds
                elif not notification.payload.startswith(ECHO):
                    self.notify(notification.payload)
            if expected_echo is not None and monotonic() > deadline:
                return
