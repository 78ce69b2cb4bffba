"""A pool of connections to one database, shared by threads. A call takes one connection and leaves no state in it.

Nothing is kept in a session that a pooling proxy may exchange: no prepared statement, no setting, no lock. So the proxy
may run every transaction in another session.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from holdfast.clock import monotonic
from holdfast.drivers.postgres import arrays
from holdfast.drivers.postgres.errors import CONFLICTS, STALE_PLAN, is_connection_lost, translate_error
from holdfast.errors import StoreBusy, StoreClosed

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

FIRST_RETRY_SECONDS = 0.02  # before a call is repeated; doubled up to MAX_RETRY_SECONDS
MAX_RETRY_SECONDS = 0.5
ONLY_ON_REQUEST = sys.maxsize  # a statement is prepared if a call asks for it, never because it is frequent
_of_parent_process: list[
    Connection
] = []  # never closed: closing them in a forked child would end the parent's sessions


class OwnConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that this driver opened; it can send packed arrays."""

    @cached_property
    def value_cursor(self) -> psycopg.RawCursor[tuple[Any, ...]]:
        """A cursor for calls with a small answer, which it keeps until the next one.

        A new cursor looks up how to send each argument: a third of what a call of many arguments costs in Python.
        """
        return psycopg.RawCursor(self, row_factory=tuple_row)

    @cached_property
    def has_own_session(self) -> bool:
        """Whether every transaction runs in the same session, so that prepared statements may be kept there.

        A pooling proxy cannot tell a client the process of its session, because the session changes. The proxy invents
        a number. Costs a round trip, once per connection.
        """
        [(pid,)] = self.execute("SELECT pg_backend_pid()", prepare=False).fetchall()
        return bool(pid == self.info.backend_pid)


_opened: weakref.WeakSet[OwnConnection] = weakref.WeakSet()
_pools: weakref.WeakSet[ConnectionPool] = weakref.WeakSet()


def _leave_parent_process() -> None:
    """In a forked child, while it has one thread: close the sockets only, and empty the pools.

    To close the connections would end the parent's sessions. To empty a pool in its first call would be too late:
    another thread could meanwhile take a connection of the parent.
    """
    for pool in tuple(_pools):
        pool.start_in_child()
    for connection in tuple(_opened):
        if not connection.closed:
            _of_parent_process.append(connection)  # for ever: the number of its socket may soon be another descriptor
            with suppress(psycopg.Error, OSError):
                os.close(connection.fileno())
    _opened.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_parent_process)


class ConnectionPool:
    """At most ``size`` connections, opened when they are needed. A forked child process opens its own."""

    def __init__(self, conninfo: str, *, size: int, patience: float) -> None:
        """``patience``: how many seconds a call may wait for the server or for a free connection."""
        self._conninfo = conninfo
        self._size = size
        self._patience = patience
        self.is_closed = False
        self._closing = threading.Event()
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._idle: list[Connection] = []
        self._free = threading.BoundedSemaphore(self._size)

    def start_in_child(self) -> None:
        """Begin with an empty pool in a forked child; the connections of the parent are kept and never used."""
        _of_parent_process.extend(self._idle)
        self._reset()

    def check_open(self) -> None:
        """Raise ``StoreClosed`` after ``close``."""
        if self.is_closed:
            raise StoreClosed

    def open(self, conninfo: str | None = None) -> Connection:
        """Return a new connection that belongs to the caller."""
        connection = OwnConnection.connect(
            conninfo or self._conninfo, autocommit=True, prepare_threshold=ONLY_ON_REQUEST
        )
        arrays.register(connection.adapters)
        _opened.add(connection)
        return connection

    def run(self, work: Callable[[Connection], T], *, is_repeatable: bool) -> T:
        """Run ``work``, which is one transaction, on a connection.

        Connecting is repeated until ``patience`` has passed, and so is a call that PostgreSQL has undone (a deadlock).
        A call whose connection was lost may or may not have been carried out: it is repeated if ``is_repeatable``,
        otherwise it raises ``StoreUnavailable``.
        """
        began, pause = monotonic(), FIRST_RETRY_SECONDS
        while True:
            is_sent = False
            try:
                with self._take() as connection:
                    is_sent = True
                    return work(connection)
            except psycopg.Error as error:
                is_undone = error.sqlstate in CONFLICTS or error.sqlstate == STALE_PLAN
                waited = monotonic() - began
                may_repeat = is_undone or (is_connection_lost(error) and (is_repeatable or not is_sent))
                if not may_repeat or waited + pause > self._patience:
                    raise translate_error(error, waited) from error
            self.check_open()
            self.pause(pause)
            pause = min(2 * pause, MAX_RETRY_SECONDS)

    @contextmanager
    def _take(self) -> Iterator[Connection]:
        self.check_open()
        if os.getpid() != self._pid:
            self.start_in_child()
        free = self._free
        if not free.acquire(timeout=self._patience):
            raise StoreBusy(self._patience)
        try:
            connection = self._pop_idle() or self.open()
            try:
                yield connection
            except BaseException:
                # The session may be in the middle of a statement. A new connection costs less than a wrong answer.
                with suppress(psycopg.Error):
                    connection.close()
                raise
            if self.is_closed:
                connection.close()
            else:
                self._idle.append(connection)
        finally:
            free.release()

    def _pop_idle(self) -> Connection | None:
        """Return an idle connection without pending data: a server that stops sends a message or closes the socket."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took the last one
                return None
            with suppress(psycopg.Error, OSError, ValueError):
                if not connection.closed and not _has_data(connection.fileno()):
                    return connection
            with suppress(psycopg.Error):
                connection.close()
        return None

    def pause(self, seconds: float) -> None:
        """Sleep for ``seconds``, or until the pool is closed."""
        self._closing.wait(seconds)

    def close(self) -> None:
        """Close the idle connections; a connection in use is closed when its call ends."""
        self.is_closed = True
        self._closing.set()
        if os.getpid() != self._pid:
            return
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()


def _has_data(descriptor: int) -> bool:
    """Whether a read would return at once. Unlike ``select``, ``poll`` takes descriptors above 1024."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
