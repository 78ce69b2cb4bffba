"""The SQLite engine: a method per request, each a function of a topic module in a transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote

from holdfast.clock import SECOND, Clock, SystemClock, monotonic
from holdfast.drivers import requests as r
from holdfast.drivers.answers import (
    Diagnosis,
    Inspection,
    LedgerTuples,
    Page,
    QueueCounts,
    Reaped,
    Reserved,
    SpaceRemoval,
    Stored,
    Trimmed,
)
from holdfast.drivers.capabilities import Capabilities, Durability, Feature
from holdfast.drivers.engine import Engine
from holdfast.drivers.packing import to_json
from holdfast.drivers.sqlite import (
    admin,
    clock_repair,
    domain_admin,
    enqueue,
    estimates,
    ledger,
    registry,
    reserve,
    settle,
    spaces,
)
from holdfast.drivers.sqlite.database import Database, Options
from holdfast.drivers.sqlite.joined import caller_transaction
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.drivers.store import Store
from holdfast.drivers.url_options import read_options
from holdfast.errors import ConnectError, InvalidInput, LeaseError
from holdfast.model import bounds
from holdfast.model.domain import DomainInfo
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Entry

MAX_BUSY_SECONDS = 86_400
CANCEL_POLL_SECONDS = 0.1  # between two looks for a cancel: a busy store commits more often

T = TypeVar("T")


class SqliteEngine(Engine):
    """One space of a database file: durable, for many threads and processes of one machine.

    Requests that write share commits (see ``Database.write``); requests that only read never wait for a writer.
    """

    has_serial_arrivals = True
    has_numbered_ledger = True

    def __init__(
        self, database: Database, *, clock: Clock | None = None, caller_clock: bool = False, space: str = "main"
    ) -> None:
        self.space_name = bounds.check_name("space", space)
        self.caller_clock = caller_clock
        self._database = database
        self._clock = clock or SystemClock()
        self._has_waited = False
        self.can = Capabilities(
            driver="sqlite",
            durability=Durability.FSYNC if database.options.synchronous == "FULL" else Durability.PROCESS,
            gaps={Feature.MACHINES: "the file is on one machine"},
        )

    @property
    def path(self) -> Path:
        """The database file."""
        return self._database.path

    def check_free_space(self) -> None:
        """Raise ``StoreFull`` while the disk is nearly full."""
        self._database.free_space.check()

    def count_future_rows(self) -> int:
        """Return how many rows are from the future of a clock that is right again."""
        return self._read(clock_repair.count_future_rows)

    def repair_clock(self) -> int:
        """Move the rows from the future; return how many."""
        return self._write(clock_repair.repair)

    def count_stray_payloads(self) -> int:
        """Return how many large payloads have no job, at most ``REAP_LIMIT``: no verb leaves one."""
        parameters = {"space": self.space_name, "limit": r.REAP_LIMIT}
        return self._read(lambda tx: int(tx.run("admin/count_stray_payloads", parameters).fetchone()[0]))

    def open_space(self, name: str) -> SqliteEngine:
        """Return another space of the file."""
        return SqliteEngine(self._database, clock=self._clock, caller_clock=self.caller_clock, space=name)

    def close(self) -> None:
        """Close the file for all its spaces."""
        self._database.close()

    # The core ---------------------------------------------------------------------------------------------------

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Store jobs, alone or in the transaction of a caller."""
        jobs, now = request.jobs, request.now
        if len(jobs) == 1 and request.lease is None:
            self._database.free_space.check_for_one(len(jobs[0].payload))
        else:
            self._database.free_space.check()
        if request.connection is not None:
            return Stored(self._enqueue_joined(request))
        if request.lease is not None:
            return self._write(lambda tx: enqueue.enqueue_leased(tx, request), now)
        if request.replace_dead_before is not None:
            cursors = self.reader_cursors(now)
            return Stored(self._write(lambda tx: enqueue.enqueue_replacing(tx, request, cursors), now))
        if not request.writes and enqueue.is_plain(jobs):
            answers = self._insert_plain(jobs[0], now)
            if answers is not None:
                return Stored(answers)
        return Stored(self._write(lambda tx: enqueue.enqueue(tx, jobs, request.writes), now))

    def _insert_plain(self, job: JobRecord, now: int | None) -> list[Enqueued] | None:
        def insert(connection: sqlite3.Connection) -> list[Enqueued] | None:
            # The clock is read for each try, as near to the commit as possible.
            return enqueue.insert_plain(connection, self.space_name, job, self._clock.now() if now is None else now)

        return self._database.write_alone(insert)

    def _enqueue_joined(self, request: r.Enqueue) -> list[Enqueued]:
        """Begin a transaction of the caller's connection if there is none, and never commit."""
        with caller_transaction(request.connection, self.path) as connection:
            self._database.check_file()
            if not connection.in_transaction:
                connection.execute("BEGIN IMMEDIATE")
            self._database.migrate_on(connection)
            return self._run(connection, lambda tx: enqueue.enqueue(tx, request.jobs, request.writes), request.now)

    def reserve(self, request: r.Reserve) -> Reserved:
        """Lease jobs."""
        version = self._database.version() if self._has_waited else (0, 0)  # only a wait compares it

        def work(tx: Transaction) -> Reserved:
            return Reserved(reserve.reserve(tx, request), ledger.rows_of_expired(tx), (*version, tx.now))

        return self._write(work, request.now)

    def extend(self, request: r.Extend) -> list[Lease | LeaseError]:
        """Extend leases."""
        return self._write(lambda tx: settle.extend(tx, request), request.now)

    def settle(self, request: r.Settle) -> list[LeaseError | None]:
        """End leases."""
        return self._write(lambda tx: settle.settle(tx, request.settlements), request.now)

    def reap(self, request: r.Reap) -> Reaped:
        """End leases that have expired."""

        def work(tx: Transaction) -> Reaped:
            if request.leases is None:
                count, reported = settle.reap(tx, request.queues, worker=request.worker, limit=request.limit), []
            else:
                reported = settle.report_outage(tx, request.leases)
                count = sum(reported)
            return Reaped(count, ledger.rows_of_expired(tx), reported)

        return self._write(work, request.now)

    def inspect(self, request: r.Inspect) -> dict[str, Inspection]:
        """Return jobs by their ids."""
        return self._read(lambda tx: admin.inspect(tx, request))

    def wait(self, request: r.Wait) -> None:
        """Wait for commits of any process, see ``commit_watch``.

        Returns when a commit since the last reserve has left a due job, when a scheduled job becomes due, and when a
        lease expires. A job that was due at the last reserve, and was not reserved, ends no wait before the next
        commit: its queue is paused, or this worker does not know its type.
        """
        self._database.check_open()
        self._has_waited = True
        queues = r.distinct(request.queues)
        *reserved_version, reserved_at = request.since or (0, 0, 0)
        deadline = due_at = monotonic() + request.timeout
        looked_at_version: tuple[int, int] | None = None
        while (left := min(deadline, due_at) - monotonic()) > 0:
            version = self._database.version()
            if version == looked_at_version:
                self._database.wait_for_commit(left)
                continue
            looked_at_version = version
            after = reserved_at if version == tuple(reserved_version) else None
            due_in = self._read(partial(reserve.time_until_due, queues=queues, after=after))
            if due_in is not None and due_in <= 0:
                return
            due_at = deadline if due_in is None else monotonic() + due_in / SECOND

    def wait_for_cancel(self, request: r.WaitForCancel) -> bool:
        """Look for commits of any process, and read the jobs after a commit."""
        deadline = monotonic() + request.timeout
        looked_at_version = None
        while True:
            version = self._database.version()
            if version != looked_at_version and self._read(lambda tx: admin.is_cancel_requested(tx, request.job_ids)):
                return True
            looked_at_version = version
            left = deadline - monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, CANCEL_POLL_SECONDS))

    # Jobs -------------------------------------------------------------------------------------------------------

    def find(self, request: r.Find) -> Page[JobRecord]:
        """Return a page of jobs."""
        return self._read(lambda tx: admin.find(tx, request))

    def any_open(self, request: r.AnyOpen) -> bool:
        """Whether a job is open."""
        parameters = {"space": self.space_name, "queues": to_json(request.queues), "types": to_json(request.types)}
        return self._read(lambda tx: bool(tx.run("admin/any_open", parameters).fetchone()[0]))

    def counts(self, request: r.Counts) -> list[QueueCounts]:
        """Count jobs."""
        count = estimates.estimate_counts if request.estimate else admin.counts
        return self._read(lambda tx: count(tx, request.queues, request.counted), request.now)

    def requeue(self, request: r.Requeue) -> list[bool]:
        """Make ended jobs ready again."""
        return self._write(lambda tx: admin.requeue(tx, request.job_ids), request.now)

    def cancel(self, request: r.Cancel) -> list[State | None]:
        """Cancel jobs."""
        return self._write(lambda tx: admin.cancel(tx, request.job_ids), request.now)

    def purge(self, request: r.Purge) -> list[bool]:
        """Remove ended jobs."""
        cursors = self.reader_cursors(request.now)
        return self._write(lambda tx: admin.purge(tx, request.job_ids, cursors), request.now)

    def trim(self, request: r.Trim) -> Trimmed:
        """Remove old rows."""
        keep, cursors = self.retention_of(request), self.reader_cursors(request.now)
        return self._write(lambda tx: admin.trim(tx, keep, cursors, limit=request.limit), request.now)

    def diagnose(self, request: r.Diagnose) -> Diagnosis:
        """Return facts about the file."""

        def work(tx: Transaction) -> Diagnosis:
            expired = {"space": tx.space, "before": tx.now - request.expired_for, "limit": r.REAP_LIMIT}
            total, unused = tx.run("admin/file_size").fetchone()
            return Diagnosis(
                expired_leases=tx.run("admin/count_expired_leases", expired).fetchone()[0],
                table_sizes={"used pages": total - unused, "unused pages": unused},  # tables share the pages
                trimmed_rows=tx.ledger_trimmed,
            )

        return self._read(work, request.now)

    # Queues and domains -----------------------------------------------------------------------------------------

    def configure(self, request: r.Configure) -> None:
        """Replace settings."""
        self._write(lambda tx: admin.configure(tx, request.queue, request.type, request.settings, request.only))

    def settings(self, request: r.Settings) -> QueueSettings:
        """Return settings."""
        return self._read(lambda tx: admin.settings(tx, request.queue, request.type))

    def domains(self, request: r.Domains) -> Page[DomainInfo]:
        """Return a page of domains."""
        return self._read(lambda tx: domain_admin.domains(tx, request), request.now)

    def resume(self, request: r.Resume) -> bool:
        """Let a domain go on."""
        return self._write(lambda tx: domain_admin.resume(tx, request), request.now)

    def forget_domain(self, request: r.ForgetDomain) -> bool:
        """Remove what a domain remembers."""
        return self._write(lambda tx: domain_admin.forget(tx, request.queue, request.domain))

    # Ledger -----------------------------------------------------------------------------------------------------

    def ledger(self, request: r.Ledger) -> Page[LedgerRow]:
        """Return a page of the ledger."""
        return self._read(lambda tx: ledger.page(tx, request.after, request.limit))

    def ledger_end(self, request: r.LedgerEnd) -> str:
        """Return the cursor of the end."""
        del request
        return self._read(lambda tx: str(tx.ledger_end()))

    def ledger_tail(self, request: r.LedgerTail) -> Page[LedgerRow]:
        """Return the last rows."""
        return self._read(lambda tx: ledger.tail(tx, request.before, request.limit))

    def read_tuples(self, request: r.ReadTuples) -> LedgerTuples:
        """Return the rows as they are stored."""
        return self._read(lambda tx: LedgerTuples(*ledger.tuples(tx, request.after, request.limit)))

    def ledger_marks(self, request: r.LedgerMarks) -> list[tuple[str, int]]:
        """Find the cursors by their numbers."""
        return self._read(lambda tx: ledger.marks(tx, request.after, request.every, request.most))

    # Registry and spaces ----------------------------------------------------------------------------------------

    def read(self, request: r.Read) -> list[Entry | None]:
        """Return entries by their keys."""
        return self._read(lambda tx: [registry.read(tx, request.kind, key) for key in request.keys], request.now)

    def write(self, request: r.Write) -> list[Entry | None]:
        """Change entries."""
        return self._write(lambda tx: registry.write(tx, request.changes, together=request.together), request.now)

    def scan(self, request: r.Scan) -> list[Entry]:
        """Return a page of entries."""
        return self._read(
            lambda tx: registry.scan(tx, request.kind, request.prefix, request.after, request.limit), request.now
        )

    def spaces(self, request: r.Spaces) -> Page[str]:
        """Return a page of spaces."""
        list_page = spaces.list_expired if request.has_expired_leases else spaces.list_spaces
        return self._read(lambda tx: list_page(tx, after=request.after, limit=request.limit), request.now)

    def remove_space(self, request: r.RemoveSpace) -> SpaceRemoval:
        """Remove rows of a space."""
        other = self.open_space(request.name)
        return other._write(lambda tx: spaces.remove(tx, limit=request.limit, force=request.force), request.now)  # noqa: SLF001 - this class

    # Transactions -----------------------------------------------------------------------------------------------

    def _write(self, work: Callable[[Transaction], T], now: int | None = None) -> T:
        """Run ``work`` in a write transaction; its effect is durable when this returns."""
        return self._database.write(lambda connection: self._run(connection, work, now))

    def _read(self, work: Callable[[Transaction], T], now: int | None = None) -> T:
        """Run ``work`` on a snapshot of the database."""
        return self._database.read(lambda connection: self._run(connection, work, now))

    def _run(self, connection: sqlite3.Connection, work: Callable[[Transaction], T], now: int | None) -> T:
        tx = Transaction(connection, self.space_name, host_now=self._clock.now(), caller_now=now)
        answer = work(tx)
        tx.finish()
        return answer


def open_url(url: SplitResult, *, space: str, caller_clock: bool, clock: Clock | None) -> Store:
    """Open ``sqlite:///jobs.db`` (relative to the working directory) or ``sqlite:////var/lib/jobs.db`` (absolute)."""
    path = unquote(url.path[1:])
    if url.netloc or not path or "\0" in path or path.startswith(":memory:"):
        shown = "a host" if url.netloc else repr(path) if path else "no path"
        raise ConnectError(
            f"wanted sqlite:///relative.db or sqlite:////absolute.db, got {shown} (for a store in memory: memory://)"
        )
    known = {"synchronous": _synchronous, "busy_for": _busy_for, "min_free_bytes": _min_free_bytes}
    options: dict[str, Any] = read_options(url, known)
    database = Database(Path(path).absolute(), Options(**options))
    return Store(SqliteEngine(database, clock=clock, caller_clock=caller_clock, space=space))


def _synchronous(value: str) -> str:
    if value.upper() not in {"FULL", "NORMAL"}:
        raise InvalidInput("synchronous", wanted="FULL (the default) or NORMAL", got=value)
    return value.upper()


def _busy_for(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_BUSY_SECONDS:
        raise InvalidInput("busy_for", wanted=f"seconds from 0 to {MAX_BUSY_SECONDS}", got=value)
    return seconds


def _min_free_bytes(value: str) -> int:
    if not (value.isascii() and value.isdecimal()):
        raise InvalidInput("min_free_bytes", wanted="a whole number of bytes", got=value)
    return int(value)
