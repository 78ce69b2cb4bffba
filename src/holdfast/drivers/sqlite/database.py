"""One SQLite file: its connections, and the shared commit of concurrent writers."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from holdfast.clock import SystemClock, monotonic
from holdfast.drivers.sqlite.commit_watch import CommitWatch, watch_commits
from holdfast.drivers.sqlite.free_space import FreeSpace
from holdfast.drivers.sqlite.migrations import is_current, load, migrate
from holdfast.drivers.sqlite.opening import opening_error
from holdfast.drivers.sqlite.statements import sql
from holdfast.drivers.unreadable import read_any_text
from holdfast.errors import StoreBusy, StoreClosed, StoreError, StoreMoved, StoreUnavailable

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

OLDEST_SQLITE = (3, 37, 0)  # the first with STRICT tables
MAX_GROUP_WRITES = 128  # that share one commit
OPENING_SECONDS = 0.5  # that opening waits for a lock: the lock may belong to a transaction of the caller itself
MIN_BUSY_PAUSE_SECONDS, MAX_BUSY_PAUSE_SECONDS = 0.000_2, 0.004
_BUSY = frozenset({"SQLITE_BUSY", "SQLITE_BUSY_RECOVERY", "SQLITE_BUSY_SNAPSHOT", "SQLITE_LOCKED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a URL; every default is the safe one."""

    synchronous: str = "FULL"  # NORMAL survives a crash of the process, but not a power cut
    busy_for: float = 60.0  # seconds to wait for a lock of another process
    min_free_bytes: int = 64 << 20  # with less free disk space enqueue is refused, so that settlements still fit


class Database:
    """Connections to one file. Safe to share between threads; a forked child opens its own connections."""

    def __init__(self, path: Path, options: Options) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StoreUnavailable(
                f"wanted SQLite {'.'.join(map(str, OLDEST_SQLITE))} or newer, got {sqlite3.sqlite_version}"
            )
        if not path.parent.is_dir():
            raise StoreUnavailable(
                f"wanted a folder at {path.parent} to put {path.name} into, there is none: create it first"
            )
        self.path = path
        self.free_space = FreeSpace(path.parent, least=options.min_free_bytes)
        self.options = options
        self.closed = False
        self._location = str(path)  # for each check: a Path takes longer
        self._device_and_inode: tuple[int, int] | None = None  # once the file is open
        self._abandoned: list[object] = []
        self._is_migrated = False
        self._version_readers = 0  # opened so far, also before a fork
        self._busy_for = min(options.busy_for, OPENING_SECONDS)
        self._start()
        try:
            with suppress(StoreBusy):  # the first call creates the tables
                self._migrate()
        except BaseException:
            self.close()
            raise
        self._busy_for = options.busy_for
        _open_databases.add(self)

    def _start(self) -> None:
        """Create the connections and locks of this process. Those of a parent process are never used or closed."""
        self._pid = os.getpid()
        self._queue: deque[_Write[Any]] = deque()
        self._write_lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._readers: deque[sqlite3.Connection] = deque()
        self._version_reader: sqlite3.Connection | None = None
        self._version_lock = threading.Lock()
        self._watches = threading.local()

    def check_open(self) -> None:
        """Raise ``StoreClosed`` if the database is closed."""
        if self.closed:
            raise StoreClosed

    def check_file(self) -> None:
        """Raise ``StoreMoved`` if the file that was opened is no longer at its path.

        Its connections would go on, and the next process that opens the path would not find what they have written. It
        takes 3 to 5 µs: of a small enqueue 0.4 % with a sync, 5 % without one.
        """
        if self._device_and_inode is None:
            return
        try:
            found = os.stat(self._location)  # noqa: PTH116 - see ``_location``
        except OSError as error:
            raise StoreMoved(self._location) from error
        if (found.st_dev, found.st_ino) != self._device_and_inode:
            raise StoreMoved(self._location)

    def _ensure_own_process(self) -> None:
        """Raise ``StoreClosed`` if the database is closed, and create new connections in a forked child."""
        self.check_open()
        if os.getpid() != self._pid:
            self.start_in_child()

    def start_in_child(self) -> None:
        """Create the connections and locks of a forked child.

        Called right after the fork, while the child has one thread: otherwise a second thread could use the connections
        and locks of the parent until the first call of another thread has replaced them.
        """
        # SQLite forbids using a connection after a fork; even closing it would drop the locks of the parent.
        self._abandoned += [self._writer, self._readers, self._version_reader]
        self._start()

    def _ensure_ready(self) -> None:
        """Do the same as ``_ensure_own_process``, and create the tables if the file was locked until now."""
        self._ensure_own_process()
        if not self._is_migrated:
            self._migrate()

    # Writing ----------------------------------------------------------------------------------------------------

    def write(self, work: Work[T]) -> T:
        """Run ``work`` in a write transaction and return once it is durable.

        Writes wait in a queue for one lock. The thread that gets the lock runs all queued writes in one transaction,
        each in its own savepoint, and commits once: under load many writes share an fsync, and a single write does not
        wait for others. A write that raises rolls back only its own savepoint.
        """
        self._ensure_ready()
        return self._write(work)

    def write_alone(self, statement: Work[T | None]) -> T | None:
        """Run one statement as its own transaction, unless other threads are writing: ``write`` shares their commit.

        Return its answer once it is durable; None if the caller must use ``write``. ``statement`` returns None if it
        has changed nothing.
        """
        self._ensure_ready()
        if self._queue or not self._write_lock.acquire(blocking=False):
            return None
        try:
            self.check_file()
            return self._retry_while_busy(partial(statement, self._open_writer()))
        except sqlite3.Error as error:
            raise translate_error(error) from error
        finally:
            self._write_lock.release()

    def _write(self, work: Work[T]) -> T:
        write: _Write[Any] = _Write(work)
        self._queue.append(write)
        with self._write_lock:
            while not write.is_finished:  # more than one group may be queued before it
                self._run_group(write)
        answer: T = write.answer()
        return answer

    def _run_group(self, own: _Write[Any]) -> None:
        """Run the first writes of the queue in one transaction. ``own`` is the write of this thread."""
        group: list[_Write[Any]] = []
        while self._queue and len(group) < MAX_GROUP_WRITES:
            group.append(self._queue.popleft())
        reached_commit = False
        try:
            connection = self._begin()
            for write in group:
                self._run_one(connection, write, alone=len(group) == 1)
            self.check_file()
            reached_commit = True
            if connection.in_transaction:
                connection.execute("COMMIT")
        except StoreError as error:
            self._rollback()
            _finish(group, error)
        except sqlite3.Error as error:
            self._rollback()
            _finish(group, translate_error(error))
        except BaseException:
            # An interrupt of this thread must end only its own write. The writes of other threads were either committed
            # just now, or return to the front of the queue for the next thread.
            committed = reached_commit and self._writer is not None and not self._writer.in_transaction
            if committed:
                _finish(group, None)
            else:
                self._rollback()
                self._queue.extendleft(write for write in reversed(group) if write is not own)
            raise
        else:
            _finish(group, None)

    def _run_one(self, connection: sqlite3.Connection, write: _Write[Any], *, alone: bool) -> None:
        """Run one write. Its failure does not affect the others, unless SQLite has ended the whole transaction."""
        if not alone:
            connection.execute("SAVEPOINT one_write")
        try:
            try:
                write.value = write.work(connection)
            except sqlite3.OperationalError as error:
                if not is_text_error(error):
                    raise
                connection.execute("ROLLBACK" if alone else "ROLLBACK TO one_write")
                if alone:
                    self._begin()
                with _reading_any_text(connection):
                    write.value = write.work(connection)
        except Exception as error:
            write.error = translate_error(error) if isinstance(error, sqlite3.Error) else error
            if not connection.in_transaction:
                raise StoreUnavailable(f"SQLite rolled back the transaction: {error}") from error
            connection.execute("ROLLBACK" if alone else "ROLLBACK TO one_write")
        if not alone:
            connection.execute("RELEASE one_write")

    def _begin(self) -> sqlite3.Connection:
        """Return the writing connection, inside a transaction that holds the write lock of the file."""
        connection = self._open_writer()
        self._retry_while_busy(partial(connection.execute, "BEGIN IMMEDIATE"))
        return connection

    def _open_writer(self) -> sqlite3.Connection:
        self.check_open()
        if self._writer is None:
            self._writer = self._connect()
            self._writer.execute(sql("ack/create_table"))
            self._writer.execute(sql("settle/create_table"))
        return self._writer

    def _retry_while_busy(self, execute: Callable[[], T]) -> T:
        """Execute a statement that needs a lock; repeat it while another process holds the lock.

        The connection has no busy handler: that of SQLite waits in growing steps of up to 100 ms, so some of many
        processes starve, it does not wait at all if two processes would wait for each other, and no signal is handled
        meanwhile. Short random pauses are fairer: of six processes that write all the time none waits for more than a
        second, and all together write twice as much. After
        ``busy_for`` seconds this raises ``StoreBusy``, and nothing has changed. ``close`` ends the wait, too.
        """
        started = monotonic()
        while True:
            try:
                return execute()
            except sqlite3.OperationalError as error:
                waited = monotonic() - started
                if error.sqlite_errorname not in _BUSY:
                    raise
                self.check_open()
                if waited > self._busy_for:
                    raise StoreBusy(waited) from error
                time.sleep(random.uniform(MIN_BUSY_PAUSE_SECONDS, MAX_BUSY_PAUSE_SECONDS))  # noqa: S311 - no secret

    def _rollback(self) -> None:
        if self._writer is not None and self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    # Reading ----------------------------------------------------------------------------------------------------

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open a connection whose statements all see the same commit. It waits for no writer, and none waits for it."""
        self._ensure_ready()
        return self._reading()

    def read(self, work: Work[T]) -> T:
        """Run ``work`` on a connection of ``reading``; once more if a text in a row is not UTF-8."""
        with self.reading() as connection:
            try:
                return work(connection)
            except sqlite3.OperationalError as error:
                if not is_text_error(error):
                    raise
            with _reading_any_text(connection):
                return work(connection)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        self.check_file()
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = self._connect(busy_for=self.options.busy_for)
        try:
            connection.execute("BEGIN")
            yield connection
        except sqlite3.Error as error:
            raise translate_error(error) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._readers.append(connection)

    def version(self) -> tuple[int, int]:
        """Return a value that changes with every commit of any process.

        SQLite counts the commits that one connection sees. The first number tells the connections apart: otherwise the
        next one, after a fork, could return the numbers of the last one again.
        """
        self._ensure_ready()
        self.check_file()
        with self._version_lock:
            if self._version_reader is None:
                self._version_reader = self._connect(busy_for=self.options.busy_for)
                self._version_readers += 1
            [version] = self._version_reader.execute("PRAGMA data_version").fetchone()
            return self._version_readers, int(version)

    def wait_for_commit(self, timeout: float) -> None:
        """Block until there may be a new commit of any process, at most ``timeout`` seconds."""
        watch: CommitWatch | None = getattr(self._watches, "watch", None)
        if watch is None:
            self.version()  # opens the file, so that its log exists
            watch = self._watches.watch = watch_commits(Path(f"{self.path.resolve()}-wal"))
        watch.wait(timeout)

    # Opening, closing -------------------------------------------------------------------------------------------

    def _connect(self, *, busy_for: float = 0.0) -> sqlite3.Connection:
        """Open the file. SQLite itself waits for locks for ``busy_for`` seconds: readers rarely need one."""
        self.check_file()  # else SQLite would create a new one
        try:
            connection = sqlite3.connect(
                self.path,
                timeout=0.0,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
            try:
                self._prepare(connection)
                connection.execute(f"PRAGMA busy_timeout={int(busy_for * 1000)}")
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise opening_error(self.path, error) from error
        if self._device_and_inode is None:
            found = self.path.stat()
            self._device_and_inode = found.st_dev, found.st_ino
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        [mode] = self._retry_while_busy(partial(connection.execute, "PRAGMA journal_mode=WAL")).fetchone()
        if mode != "wal":  # SQLite does not raise: it returns the mode that stays
            raise StoreUnavailable(f"wanted journal mode wal for {self.path}, got {mode}")
        connection.execute(f"PRAGMA synchronous={self.options.synchronous}")
        connection.execute("PRAGMA temp_store=MEMORY")
        connection.execute("PRAGMA cache_size=-65536")
        connection.execute("PRAGMA wal_autocheckpoint=4000")
        connection.execute("PRAGMA journal_size_limit=67108864")

    def _migrate(self) -> None:
        known = load()
        with self._reading() as connection:
            self._is_migrated = is_current(connection, known)
        if not self._is_migrated:
            self._write(lambda connection: migrate(connection, known, SystemClock().now()))
            self._is_migrated = True

    def migrate_on(self, connection: sqlite3.Connection) -> None:
        """Create the tables in the transaction of a caller, if the file was locked when this database was opened."""
        if not self._is_migrated:
            migrate(connection, load(), SystemClock().now())

    def disconnect(self) -> None:
        """Close the connections that no thread is using; the next call opens new ones.

        Called before a fork: a process that has a descriptor of the file can destroy the file by one stray write.
        """
        if os.getpid() != self._pid:
            return
        if self._write_lock.acquire(blocking=False):
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            self._write_lock.release()
        with suppress(IndexError):
            while True:
                self._readers.pop().close()
        if self._version_lock.acquire(blocking=False):
            if self._version_reader is not None:
                self._version_reader.close()
                self._version_reader = None
            self._version_lock.release()
        self._watches = threading.local()  # the last connection that closes removes the log that they watch

    def close(self) -> None:
        """Wait for the write that is running, then close the connections of this process.

        A write that waits for the lock of another process raises ``StoreClosed``: that process may keep it for long.
        """
        if self.closed:
            return
        self._ensure_own_process()
        self.closed = True
        with self._write_lock:
            if self._writer is not None:
                self._writer.close()
            while self._readers:
                self._readers.pop().close()
        with self._version_lock:
            if self._version_reader is not None:
                self._version_reader.close()


_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()


def _disconnect_all() -> None:
    for database in tuple(_open_databases):
        database.disconnect()


def _start_all_in_child() -> None:
    for database in tuple(_open_databases):
        database.start_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_disconnect_all, after_in_child=_start_all_in_child)


class _Write(Generic[T]):
    """The work of one caller, and its answer once it is finished."""

    __slots__ = ("error", "is_finished", "value", "work")

    def __init__(self, work: Work[T]) -> None:
        self.work = work
        self.is_finished = False
        self.value: T
        self.error: Exception | None = None

    def answer(self) -> T:
        if self.error is not None:
            raise self.error
        return self.value


def is_text_error(error: sqlite3.OperationalError) -> bool:
    """Whether a text in a row is not UTF-8. Python raises this error, so it has no code of SQLite."""
    return not hasattr(error, "sqlite_errorcode") and str(error).startswith("Could not decode to UTF-8")


@contextmanager
def _reading_any_text(connection: sqlite3.Connection) -> Iterator[None]:
    """Read every text, see ``read_any_text``. Only for a second try: a function per text makes reading slower."""
    connection.text_factory = read_any_text
    try:
        yield
    finally:
        connection.text_factory = str


def _finish(group: list[_Write[Any]], error: Exception | None) -> None:
    """Finish every write of a group; an error of the group is the error of each write that has none."""
    for write in group:
        write.error = write.error or error
        write.is_finished = True


def translate_error(error: sqlite3.Error) -> StoreError:
    """Return the ``StoreError`` for an error of SQLite, with that error as its cause."""
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    translated: StoreError
    if name in _BUSY:
        translated = StoreBusy(0.0)
    elif name == "SQLITE_FULL":
        translated = StoreUnavailable("the disk is full: nothing was changed; free some space and try again")
    else:
        translated = StoreUnavailable(f"SQLite could not do this ({name}): {error}")
    translated.__cause__ = error  # set here: the thread of the caller raises it later
    return translated
