"""A hint that jobs have come: LISTEN on a direct connection, in a thread of its own.

Never the truth: whoever waits looks for itself, too. A connection that is dead, or that leads to a pooling proxy on
which LISTEN is heard by nobody, is found out by asking for an echo, and replaced or given up.
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
from holdfast.drivers.postgres.connections import Connection, Connections

ECHO_EVERY = 10.0  # seconds of silence after which an echo is asked for
ECHO_WITHIN = 2.0
AGAIN_AFTER = 5.0  # seconds before a connection that failed is tried again


def channel_of(schema: str) -> str:
    """One channel per schema; the payload names the space."""
    return f"holdfast_{hashlib.blake2b(schema.encode(), digest_size=8).hexdigest()}"


class Listener:
    """Started by the first that waits; stopped with the store."""

    def __init__(self, connections: Connections, conninfo: str | None, schema: str) -> None:
        self._connections = connections
        self._conninfo = conninfo
        self._schema = schema
        self.channel = channel_of(schema)
        self._heard = threading.Condition()
        self._counts: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._pid = os.getpid()
        self.is_alive = False  # whether an echo has come back lately

    def start(self) -> None:
        """Once in a process; later calls do nothing."""
        if os.getpid() != self._pid:  # a forked child has the values, and neither the thread nor free locks
            self.__init__(self._connections, self._conninfo, self._schema)  # type: ignore[misc]
        with self._starting:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="holdfast-listen", daemon=True)
                self._thread.start()

    def count(self, space: str) -> int:
        """How often something was heard of a space so far."""
        return self._counts[space]

    def wait(self, space: str, seen: int, timeout: float) -> None:
        """Return when something was heard of a space since its count was ``seen``, or after ``timeout`` seconds."""
        with self._heard:
            self._heard.wait_for(lambda: self._stop.is_set() or self._counts[space] != seen, timeout)

    def tell(self, space: str) -> None:
        """Also called by this process's own enqueues: no need for a round trip to hear of them."""
        with self._heard:
            self._counts[space] += 1
            self._heard.notify_all()

    def stop(self) -> None:
        """Wake up whoever waits, and let the thread end."""
        self._stop.set()
        with self._heard:
            self._heard.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(ECHO_WITHIN)

    def _run(self) -> None:
        while not self._stop.is_set():
            with suppress(psycopg.Error, OSError), self._connections.open(self._conninfo) as connection:
                self._listen(connection)
            self.is_alive = False
            self._stop.wait(AGAIN_AFTER)

    def _listen(self, connection: Connection) -> None:
        """Until it is stopped, or no echo comes."""
        connection.execute(f"LISTEN {self.channel}".encode())
        asked: str | None = None
        deadline = 0.0
        while not self._stop.is_set():
            if asked is None and monotonic() >= deadline:
                asked, deadline = secrets.token_hex(8), monotonic() + ECHO_WITHIN
                connection.execute("SELECT pg_notify(%s, %s)", [self.channel, f"echo {asked}"])
            for notify in connection.notifies(timeout=0.2, stop_after=1):
                if asked is not None and notify.payload == f"echo {asked}":
                    asked, self.is_alive = None, True
                    deadline = monotonic() + ECHO_EVERY
                elif not notify.payload.startswith("echo "):
                    self.tell(notify.payload)
            if asked is not None and monotonic() > deadline:
                return
