"""One SQLite file: its connections, and the writer in which concurrent callers share one commit."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from holdfast.clock import SystemClock, monotonic
from holdfast.drivers.sqlite.commit_watch import Ear, ear_for
from holdfast.drivers.sqlite.migrations import is_current, load, migrate
from holdfast.drivers.sqlite.statements import sql
from holdfast.errors import StoreBusy, StoreClosed, StoreError, StoreFull, StoreUnavailable

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

OLDEST_SQLITE = (3, 37, 0)  # STRICT tables; RETURNING and UPDATE FROM are older
GROUP = 128  # calls that share one commit at the most
_BUSY = frozenset({"SQLITE_BUSY", "SQLITE_BUSY_RECOVERY", "SQLITE_BUSY_SNAPSHOT", "SQLITE_LOCKED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a URL may say; every default is the safe one."""

    synchronous: str = "FULL"  # NORMAL survives the death of the process, not a power cut
    busy_for: float = 60.0  # seconds to wait for other processes before giving up
    min_free_bytes: int = 64 << 20  # of disk: below it enqueue is refused, so that acks still fit


class Database:
    """Connections to one file. Safe to share between threads; a forked child opens its own."""

    def __init__(self, path: Path, options: Options) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StoreUnavailable(
                f"wanted SQLite {'.'.join(map(str, OLDEST_SQLITE))} or newer, got {sqlite3.sqlite_version}"
            )
        if not path.parent.is_dir():
            raise StoreUnavailable(
                f"wanted a folder at {path.parent} to put {path.name} into, there is none: make it first"
            )
        self.path = path
        self.options = options
        self.closed = False
        self._abandoned: list[object] = []
        self._start()
        try:
            self._migrate()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        """Connections and locks of this process; the ones of a parent are never touched, nor closed."""
        self._pid = os.getpid()
        self._queued: deque[_Call[Any]] = deque()
        self._leading = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._readers: deque[sqlite3.Connection] = deque()
        self._watcher: sqlite3.Connection | None = None
        self._watching = threading.Lock()
        self._ears = threading.local()

    def check_open(self) -> None:
        """Refuse to go on once it was closed."""
        if self.closed:
            raise StoreClosed

    def _own(self) -> None:
        self.check_open()
        if os.getpid() != self._pid:
            # SQLite forbids carrying a connection over a fork; even closing it here would drop the parent's locks.
            self._abandoned += [self._writer, self._readers, self._watcher]
            self._start()

    # Writing ----------------------------------------------------------------------------------------------------

    def write(self, work: Work[T]) -> T:
        """Run ``work`` in a write transaction and return once it is durable.

        Callers queue up behind one lock. Whoever gets it runs everything that has queued meanwhile in one transaction,
        each call in a savepoint of its own, and commits once: under load many calls share an fsync, and a lone call
        waits for nobody. A call that raises undoes only itself.
        """
        self._own()
        call: _Call[Any] = _Call(work)
        self._queued.append(call)
        with self._leading:
            while not call.finished:  # more than a group may have queued up in front of it
                self._run_group(call)
        answer: T = call.answer()
        return answer

    def _run_group(self, own: _Call[Any]) -> None:
        group: list[_Call[Any]] = []
        while self._queued and len(group) < GROUP:
            group.append(self._queued.popleft())
        committing = False
        try:
            connection = self._begin()
            for call in group:
                self._run_one(connection, call, alone=len(group) == 1)
            committing = True
            if connection.in_transaction:
                connection.execute("COMMIT")
        except StoreError as error:
            self._undo()
            _finish(group, error)
        except sqlite3.Error as error:
            self._undo()
            _finish(group, translate_error(error))
        except BaseException:
            # An interrupt of the leading thread, which ends its own call. The others' calls are not its to lose: either
            # they were committed just now, or they go back to the head of the queue for the next leader.
            committed = committing and self._writer is not None and not self._writer.in_transaction
            if committed:
                _finish(group, None)
            else:
                self._undo()
                self._queued.extendleft(call for call in reversed(group) if call is not own)
            raise
        else:
            _finish(group, None)

    def _run_one(self, connection: sqlite3.Connection, call: _Call[Any], *, alone: bool) -> None:
        """One call of the group; its failure stays its own, unless SQLite has ended the whole transaction."""
        if not alone:
            connection.execute("SAVEPOINT call")
        try:
            call.value = call.work(connection)
        except Exception as error:
            call.error = translate_error(error) if isinstance(error, sqlite3.Error) else error
            if not connection.in_transaction:
                raise StoreUnavailable(f"SQLite gave up the transaction: {error}") from error
            connection.execute("ROLLBACK" if alone else "ROLLBACK TO call")
        if not alone:
            connection.execute("RELEASE call")

    def _begin(self) -> sqlite3.Connection:
        """The writing connection, inside a transaction that owns the write lock."""
        if self._writer is None:
            self._writer = self._connect()
            self._writer.execute(sql("ack/create_table"))
            self._writer.execute(sql("settle/create_table"))
        self._patiently(self._writer, "BEGIN IMMEDIATE")
        return self._writer

    def _patiently(self, connection: sqlite3.Connection, statement: str) -> sqlite3.Cursor:
        """A statement that needs a lock, tried until the other processes give way.

        SQLite's own busy handler waits in growing steps of up to 100 ms, so that of many processes some starve, and
        where it sees two that would wait for each other it does not wait at all; short random pauses are fairer, and
        a call that gives up has changed nothing.
        """
        started = monotonic()
        while True:
            try:
                return connection.execute(statement)
            except sqlite3.OperationalError as error:
                waited = monotonic() - started
                if error.sqlite_errorname not in _BUSY:
                    raise
                if waited > self.options.busy_for:
                    raise StoreBusy(waited) from error
                time.sleep(random.uniform(0.000_2, 0.004))  # noqa: S311 - no secret

    def _undo(self) -> None:
        if self._writer is not None and self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    # Reading ----------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection whose statements all see the same commit; never blocks a writer, nor is blocked."""
        self._own()
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = self._connect()
        try:
            connection.execute("BEGIN")
            yield connection
        except sqlite3.Error as error:
            raise translate_error(error) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._readers.append(connection)

    def version(self) -> int:
        """A number that changes with every commit by any process: a hint that something happened."""
        self._own()
        with self._watching:
            if self._watcher is None:
                self._watcher = self._connect()
            [version] = self._watcher.execute("PRAGMA data_version").fetchone()
            return int(version)

    def wait_for_commit(self, timeout: float) -> None:
        """Until there may be a commit by any process, or for a while that is shorter than ``timeout``."""
        ear: Ear | None = getattr(self._ears, "ear", None)
        if ear is None:
            self.version()  # opens the file, so that there is a log
            ear = self._ears.ear = ear_for(Path(f"{self.path.resolve()}-wal"))
        ear.listen(timeout)

    # Opening, closing -------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self.path,
                timeout=self.options.busy_for,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise StoreUnavailable(f"wanted a SQLite database at {self.path}, got: {error}") from error
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        [mode] = self._patiently(connection, "PRAGMA journal_mode=WAL").fetchone()
        if mode != "wal":  # it does not raise: it answers with the mode that it kept
            raise StoreUnavailable(f"wanted journal mode wal for {self.path}, got {mode}")
        connection.execute(f"PRAGMA synchronous={self.options.synchronous}")
        connection.execute("PRAGMA temp_store=MEMORY")
        connection.execute("PRAGMA cache_size=-65536")
        connection.execute("PRAGMA wal_autocheckpoint=4000")
        connection.execute("PRAGMA journal_size_limit=67108864")

    def _migrate(self) -> None:
        known = load()
        with self.reading() as connection:
            if is_current(connection, known):
                return
        self.write(lambda connection: migrate(connection, known, SystemClock().now()))

    def check_free_space(self) -> None:
        """Refuse to grow while the disk is nearly full: a full disk would refuse acks as well."""
        free = shutil.disk_usage(self.path.parent).free
        if free < self.options.min_free_bytes:
            raise StoreFull(free=free, floor=self.options.min_free_bytes)

    def close(self) -> None:
        """Finish what is under way and close this process's connections."""
        if self.closed:
            return
        self._own()
        with self._leading:
            self.closed = True
            if self._writer is not None:
                self._writer.close()
            while self._readers:
                self._readers.pop().close()
        with self._watching:
            if self._watcher is not None:
                self._watcher.close()


class _Call(Generic[T]):
    """One caller's work, and what came of it."""

    __slots__ = ("error", "finished", "value", "work")

    def __init__(self, work: Work[T]) -> None:
        self.work = work
        self.finished = False
        self.value: T
        self.error: Exception | None = None

    def answer(self) -> T:
        if self.error is not None:
            raise self.error
        return self.value


def _finish(group: list[_Call[Any]], error: Exception | None) -> None:
    """Answer every call of a group; an error of the whole group is the error of each."""
    for call in group:
        call.error = call.error or error
        call.finished = True


def translate_error(error: sqlite3.Error) -> StoreError:
    """Vendor errors end here. What the call was about is in the cause, never a payload in the text."""
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    made: StoreError
    if name in _BUSY:
        made = StoreBusy(0.0)
    elif name == "SQLITE_FULL":
        made = StoreUnavailable("the disk is full: nothing was changed; free some space and try again")
    else:
        made = StoreUnavailable(f"SQLite could not do this ({name}): {error}")
    made.__cause__ = error  # it is raised elsewhere, in the thread of the caller
    return made
