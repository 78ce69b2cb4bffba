"""A few connections to one database, shared by threads; each call takes one, and no call leaves anything in it.

Nothing lives in a session: no prepared statements, no settings, no locks. So a pooling proxy may stand in between and
give every transaction to another session.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg

from holdfast.clock import monotonic
from holdfast.drivers.postgres import arrays
from holdfast.drivers.postgres.failures import CROSSED, STALE_PLAN, is_lost, translated
from holdfast.errors import StoreBusy, StoreClosed

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

FIRST_PAUSE = 0.02  # seconds before a call is tried again; doubled up to LONGEST_PAUSE
LONGEST_PAUSE = 0.5
_abandoned: list[Connection] = []  # of a parent process: closing them here would end the parent's sessions


class OwnConnection(psycopg.Connection[tuple[Any, ...]]):
    """One that this driver opened; it knows packed columns."""


class Connections:
    """At most ``size`` connections, opened when they are needed. A forked child opens its own."""

    def __init__(self, conninfo: str, *, size: int, patience: float) -> None:
        self._conninfo = conninfo
        self._size = size
        self._patience = patience
        self.closed = False
        self._closing = threading.Event()
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._idle: list[Connection] = []
        self._free = threading.BoundedSemaphore(self._size)

    def check_open(self) -> None:
        """Refuse to go on once it was closed."""
        if self.closed:
            raise StoreClosed

    def open(self, conninfo: str | None = None) -> Connection:
        """A new connection that belongs to the caller."""
        made = OwnConnection.connect(conninfo or self._conninfo, autocommit=True, prepare_threshold=None)
        arrays.register(made.adapters)
        return made

    def call(self, work: Callable[[Connection], T], *, again: bool) -> T:
        """Run ``work``, one statement, on a connection.

        Connecting, and what PostgreSQL has undone (a deadlock), is tried again for as long as patience lasts. So is a
        call whose connection was lost on the way, if it may be carried out twice (``again``); otherwise nobody knows
        whether it was, and ``StoreUnavailable`` says so.
        """
        began, pause = monotonic(), FIRST_PAUSE
        while True:
            sent = False
            try:
                with self._taken() as connection:
                    sent = True
                    return work(connection)
            except psycopg.Error as error:
                undone = error.sqlstate in CROSSED or error.sqlstate == STALE_PLAN
                waited = monotonic() - began
                hopeful = undone or (is_lost(error) and (again or not sent))
                if not hopeful or waited + pause > self._patience:
                    raise translated(error, waited) from error
            self.check_open()
            self.pause(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    @contextmanager
    def _taken(self) -> Iterator[Connection]:
        self.check_open()
        if os.getpid() != self._pid:
            _abandoned.extend(self._idle)
            self._start()
        free = self._free
        if not free.acquire(timeout=self._patience):
            raise StoreBusy(self._patience)
        try:
            connection = self._usable() or self.open()
            try:
                yield connection
            except BaseException:
                # Whatever it was, the session may be in the middle of it: a new one is cheap beside a wrong answer.
                with suppress(psycopg.Error):
                    connection.close()
                raise
            if self.closed:
                connection.close()
            else:
                self._idle.append(connection)
        finally:
            free.release()

    def _usable(self) -> Connection | None:
        """An idle connection on which nothing has arrived: a server that goes away says so, or closes it."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was quicker
                return None
            with suppress(psycopg.Error, OSError, ValueError):
                if not connection.closed and not select.select([connection.fileno()], [], [], 0)[0]:
                    return connection
            with suppress(psycopg.Error):
                connection.close()
        return None

    def pause(self, seconds: float) -> None:
        """Sleep, but not through a close."""
        self._closing.wait(seconds)

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        self.closed = True
        self._closing.set()
        if os.getpid() != self._pid:
            return
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()
