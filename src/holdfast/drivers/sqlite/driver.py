"""The SQLite driver: each verb validates its arguments and runs one function of a topic module in a transaction."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import SplitResult, unquote

from holdfast.clock import SECOND, Clock, SystemClock, monotonic
from holdfast.drivers.capabilities import Capabilities, Durability, Feature
from holdfast.drivers.contract import (
    REAP_LIMIT,
    DomainInfo,
    DomainStatus,
    Inspection,
    JobFilter,
    Page,
    QueueCounts,
    ResumeAction,
    Trimmed,
)
from holdfast.drivers.optional import SpaceRemoval
from holdfast.drivers.remembered_calls import RememberedCalls
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
from holdfast.drivers.sqlite.joined import JoinedSqlite
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.drivers.url_options import read_options
from holdfast.drivers.validation import Validation
from holdfast.errors import ConnectError, InvalidInput, LeaseError
from holdfast.model import bounds
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Settlement

MAX_BUSY_SECONDS = 86_400
CANCEL_POLL_SECONDS = 0.1  # between two looks for a cancel: a busy store commits more often

T = TypeVar("T")


class SqliteDriver:
    """One space of a database file: durable, for many threads and processes of one machine.

    Verbs that write share commits (see ``Database.write``); verbs that only read never wait for a writer.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock | None = None,
        caller_clock: bool = False,
        space: str = "main",
    ) -> None:
        self._database = database
        self._clock = clock or SystemClock()
        self._caller_clock = caller_clock
        self._space = bounds.check_name("space", space)
        self._last_reserve = threading.local()  # .version of the file and .instant when this thread reserved last
        self._expired: RememberedCalls[tuple[int, int]] = RememberedCalls()
        self.capabilities = Capabilities(
            driver="sqlite",
            durability=Durability.FSYNC if database.options.synchronous == "FULL" else Durability.PROCESS,
            gaps={
                Feature.MACHINES: "the file is on one machine",
            },
        )
        self._validation = Validation(self.capabilities, caller_clock=caller_clock, read_clock=self._clock.now)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> Path:
        """The database file."""
        return self._database.path

    @property
    def space_name(self) -> str:
        """The name of the space."""
        return self._space

    def check_free_space(self) -> None:
        """Raise ``StoreFull`` while the disk is nearly full."""
        self._database.free_space.check()

    def count_future_rows(self) -> int:
        """Return how many live jobs, rate buckets and stopped domains have an instant that is far in the future."""
        return self._read(clock_repair.count_future_rows)

    def repair_clock(self) -> int:
        """Move leases, delays, rate buckets and waits from the future to now; return how many rows were changed."""
        return self._write(clock_repair.repair)

    def count_stray_payloads(self) -> int:
        """Return how many large payloads have no job, at most ``REAP_LIMIT``: no verb leaves one."""
        return self._read(admin.count_stray_payloads)

    # Driver -----------------------------------------------------------------------------------------------------

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """Store new jobs and return one answer per record, in order."""
        self._check_enqueue(jobs, writes)
        if replace_dead_before is not None:
            self._validation.check_replace_dead(jobs, writes, replace_dead_before)
            cursors, before = self._validation.reader_cursors(self, now=now), replace_dead_before
            return self._write(lambda tx: enqueue.enqueue_replacing(tx, jobs, before, cursors), now)
        if not writes and enqueue.is_plain(jobs):
            answers = self._insert_plain(jobs[0], now)
            if answers is not None:
                return answers
        return self._write(lambda tx: enqueue.enqueue(tx, jobs, writes), now)

    def _insert_plain(self, job: JobRecord, now: int | None) -> list[Enqueued] | None:
        self._validation.caller_now(now)

        def insert(connection: sqlite3.Connection) -> list[Enqueued] | None:
            # The clock is read for each try, as near to the commit as possible.
            return enqueue.insert_plain(connection, self._space, job, self._clock.now() if now is None else now)

        return self._database.write_alone(insert)

    def _check_enqueue(self, jobs: Sequence[JobRecord], writes: Sequence[Change]) -> None:
        self._validation.check_enqueue(jobs)
        if writes:
            self._validation.check_enqueue_writes(jobs, writes)
        if len(jobs) == 1:
            self._database.free_space.check_for_one(len(jobs[0].payload))
        else:
            self._database.free_space.check()

    def enqueue_on(
        self, connection: sqlite3.Connection, jobs: Sequence[JobRecord], writes: Sequence[Change], now: int | None
    ) -> list[Enqueued]:
        """Enqueue inside the transaction of a caller's connection; begins one if there is none, and never commits."""
        self._check_enqueue(jobs, writes)
        self._validation.caller_now(now)
        self._database.check_file()
        if not connection.in_transaction:
            connection.execute("BEGIN IMMEDIATE")
        self._database.migrate_on(connection)
        return self._run(connection, lambda tx: enqueue.enqueue(tx, jobs, writes), now)

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """Enqueue the jobs and lease all of them, or none of them, in one transaction."""
        self._validation.check_enqueue(jobs)
        self._validation.check_lease(lease_for, worker)
        self._database.free_space.check()
        return self._write(lambda tx: enqueue.enqueue_leased(tx, jobs, lease_for=lease_for, worker=worker), now)

    def reserve(
        self,
        queues: Sequence[str],
        *,
        limit: int,
        lease_for: int,
        worker: str = "",
        types: Collection[str] | None = None,
        max_bytes: int | None = None,
        isolation: Isolation = Isolation.SHARE,
        prefetch: bool = False,
        now: int | None = None,
    ) -> list[Reservation]:
        """Lease up to ``limit`` due jobs of these queues, and of these types if given, for ``lease_for``."""
        names = self._validation.check_reserve(
            queues, limit, lease_for, worker, types, max_bytes=max_bytes, isolation=isolation, prefetch=prefetch
        )
        last = self._last_reserve
        if hasattr(last, "version"):  # only threads that wait need the version
            last.version = self._database.version()
        last.instant, reservations = self._write_remembered(
            lambda tx: (
                tx.now,
                reserve.reserve(
                    tx,
                    names,
                    limit=limit,
                    lease_for=lease_for,
                    worker=worker,
                    types=types,
                    max_bytes=max_bytes,
                    isolation=isolation,
                    prefetch=prefetch,
                ),
            ),
            now,
        )
        return reservations

    def extend(
        self,
        leases: Sequence[Lease],
        *,
        lease_for: int,
        notes: Mapping[str, Note] | None = None,
        now: int | None = None,
    ) -> list[Lease | LeaseError]:
        """Move the end of every valid lease to now + ``lease_for``, and store ``notes``, which are keyed by job id."""
        self._validation.check_extend(leases, lease_for)
        return self._write(lambda tx: settle.extend(tx, leases, lease_for=lease_for, notes=notes), now)

    def settle(self, settlements: Sequence[Settlement], *, now: int | None = None) -> list[LeaseError | None]:
        """End leases, each as its settlement says; return None or the refusal of each one, in order."""
        self._validation.check_settle(settlements)
        return self._write(lambda tx: settle.settle(tx, settlements), now)

    def reap(
        self,
        queues: Sequence[str] | None = None,
        *,
        worker: str | None = None,
        limit: int = REAP_LIMIT,
        now: int | None = None,
    ) -> int:
        """End up to ``limit`` expired leases, oldest first, in these queues or in all; return how many."""
        names = self._validation.check_reap(queues, worker, limit)
        return self._write_remembered(lambda tx: settle.reap(tx, names, worker=worker, limit=limit), now)

    def report_outage(self, leases: Sequence[Lease], *, now: int | None = None) -> list[bool]:
        """Report leases that expired while the caller could not reach the store."""
        self._validation.check_leases(leases)
        return self._write_remembered(lambda tx: settle.report_outage(tx, leases), now)

    def take_expired(self) -> list[LedgerRow]:
        """Return the ledger rows of the leases that ``reserve``, ``reap`` and ``report_outage`` ended as expired."""
        calls = self._expired.take()
        return self._read(lambda tx: [row for call in calls for row in ledger.rows_after(tx, *call)]) if calls else []

    def wait(self, queues: Sequence[str], *, timeout: float) -> None:
        """Block until a job of these queues may be due, for at most ``timeout`` seconds.

        Commits of any process wake it, see ``commit_watch``.

        Returns when a commit since this thread's last reserve has left a due job, when a scheduled job becomes due, and
        when a lease expires. A job that was due at the last reserve, and was not reserved, ends no wait before the next
        commit: its queue is paused, or this worker does not know its type.
        """
        names = self._validation.check_wait(queues, timeout)
        self._database.check_open()
        last = self._last_reserve
        if not hasattr(last, "version"):
            last.version = None
        deadline = due_at = monotonic() + timeout
        looked_at_version = None
        while (left := min(deadline, due_at) - monotonic()) > 0:
            version = self._database.version()
            if version == looked_at_version:
                self._database.wait_for_commit(left)
                continue
            looked_at_version = version
            after = last.instant if version == last.version else None
            due_in = self._read(partial(reserve.time_until_due, queues=names, after=after))
            if due_in is not None and due_in <= 0:
                return
            due_at = deadline if due_in is None else monotonic() + due_in / SECOND

    def wait_for_cancel(self, job_ids: Collection[str], *, timeout: float) -> bool:
        """Block until a cancel is requested for one of these jobs in flight, for at most ``timeout`` seconds.

        Looks for commits of any process, and reads the jobs after a commit.
        """
        self._validation.check_wait_for_cancel(job_ids, timeout)
        deadline = monotonic() + timeout
        looked_at_version = None
        while True:
            version = self._database.version()
            if version != looked_at_version and self._read(lambda tx: admin.is_cancel_requested(tx, job_ids)):
                return True
            looked_at_version = version
            left = deadline - monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, CANCEL_POLL_SECONDS))

    def space(self, name: str) -> SqliteDriver:
        """Return another space of the same store, on the same connections."""
        return SqliteDriver(self._database, clock=self._clock, caller_clock=self._caller_clock, space=name)

    def joined(self, connection: object) -> JoinedSqlite:
        """Return a driver that enqueues in the caller's own transaction; its other verbs raise ``Unsupported``.

        The connection is a ``sqlite3.Connection`` to the same file.
        """
        return JoinedSqlite(self.enqueue_on, self.capabilities, connection, path=self.path)

    def close(self) -> None:
        """Close the connections, also those of the spaces."""
        self._database.close()

    # Admin ------------------------------------------------------------------------------------------------------

    def get(self, job_id: str) -> JobRecord | None:
        """Return a job in any state; None if the space has no job with this id."""
        bounds.check_name("id", job_id)
        return self._read(lambda tx: admin.get(tx, job_id))

    def inspect(self, job_ids: Sequence[str], *, payloads: bool = True) -> dict[str, Inspection]:
        """Return these jobs, in any state, with their leases and notes, by id."""
        self._validation.check_ids(job_ids)
        return self._read(lambda tx: admin.inspect(tx, job_ids, payloads=payloads))

    def find(
        self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None, newest: bool = False
    ) -> Page[JobRecord]:
        """Return a page of the jobs that match, ordered by id."""
        self._validation.check_find(limit, after)
        return self._read(lambda tx: admin.find(tx, where or JobFilter(), limit=limit, after=after, newest=newest))

    def webhooks(self, job_ids: Sequence[str]) -> dict[str, str]:
        """Return the webhooks of these jobs, in any state, by job id."""
        self._validation.check_ids(job_ids)
        return self._read(lambda tx: admin.webhooks(tx, job_ids))

    def any_open(self, queues: Sequence[str], types: Collection[str]) -> bool:
        """Whether a job of these types is ready, scheduled or in flight in these queues."""
        queue_names, type_names = self._validation.check_any_open(queues, types)
        return self._read(lambda tx: admin.any_open(tx, queue_names, type_names))

    def count_expired_leases(self, *, expired_for: int = 0, now: int | None = None) -> int:
        """Return how many leases expired at least so many microseconds ago and were not reaped; at most REAP_LIMIT."""
        return self._read(lambda tx: admin.count_expired_leases(tx, expired_for), now)

    def table_sizes(self) -> dict[str, int]:
        """Return the bytes that each table takes with its indexes, or each part of a store without sizes of tables."""
        return self._read(admin.file_size)

    def counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Return one row per queue and type that has jobs, ordered by both."""
        counted = self._validation.check_counts(queues, states)
        return self._read(lambda tx: admin.counts(tx, queues, counted), now)

    def estimate_counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Return what ``counts`` returns, and read a bounded number of rows, whatever the space contains."""
        counted = self._validation.check_counts(queues, states)
        return self._read(lambda tx: estimates.estimate_counts(tx, queues, counted), now)

    @property
    def has_serial_arrivals(self) -> bool:
        """Whether of two calls of enqueue one always commits before the other reads the clock."""
        return True

    def arrivals(self, job_ids: Sequence[str]) -> dict[str, int]:
        """Return the places of these jobs in the order of arrival (L11); a requeued job arrives again."""
        self._validation.check_ids(job_ids)
        return self._read(lambda tx: admin.arrivals(tx, job_ids))

    @property
    def has_numbered_ledger(self) -> bool:
        """Whether the cursor of a ledger row is its number, which counts all rows of the space from 1."""
        return True

    def trimmed_rows(self) -> int | None:
        """Return how many ledger rows ``trim`` has removed; None if it has removed some and does not count them."""
        return self._read(lambda tx: tx.ledger_trimmed)

    def requeue(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Make dead or cancelled jobs ready again, attempts and crashes set to 0, as the last of their lanes (L9)."""
        self._validation.check_ids(job_ids)
        return self._write(lambda tx: admin.requeue(tx, job_ids), now)

    def cancel(self, job_ids: Sequence[str], *, now: int | None = None) -> list[State | None]:
        """Cancel ready jobs at once, and request cancellation of running jobs."""
        self._validation.check_ids(job_ids)
        return self._write(lambda tx: admin.cancel(tx, job_ids), now)

    def purge(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Remove ended jobs, each with a ``purged`` ledger row."""
        self._validation.check_ids(job_ids)
        cursors = self._validation.reader_cursors(self, now=now)
        return self._write(lambda tx: admin.purge(tx, job_ids, cursors), now)

    def configure(
        self, queue: str, settings: QueueSettings, *, type: str | None = None, only: Collection[str] | None = None
    ) -> None:
        """Replace the settings of a queue, or of one type in it."""
        self._validation.check_settings(queue, settings, type, only)
        self._write(lambda tx: admin.configure(tx, queue, type, settings, only))

    def settings(self, queue: str, *, type: str | None = None) -> QueueSettings:
        """Return the settings of a queue, or of one type in it; the defaults if none were configured."""
        self._validation.check_settings(queue, None, type)
        return self._read(lambda tx: admin.settings(tx, queue, type))

    def trim(
        self,
        *,
        ended_for: int | None = None,
        ledger_for: int | None = None,
        limit: int = bounds.MAX_BATCH_ITEMS,
        now: int | None = None,
    ) -> Trimmed:
        """Remove old rows: done and cancelled jobs, ledger rows, idempotency keys and registry entries."""
        self._validation.check_trim(ended_for, ledger_for, limit)
        keep = self._validation.retention(self, ended_for=ended_for, ledger_for=ledger_for, now=now)
        cursors = self._validation.reader_cursors(self, now=now)
        return self._write(lambda tx: admin.trim(tx, keep, cursors, limit=limit), now)

    def domains(
        self,
        queue: str | None = None,
        *,
        status: DomainStatus | None = None,
        name: str | None = None,
        limit: int = 100,
        after: str | None = None,
        now: int | None = None,
    ) -> Page[DomainInfo]:
        """Return a page of the domains that have an open job or are halted, ordered by queue and name."""
        place = self._validation.check_domains(queue, status, name, limit, after)
        find = partial(domain_admin.domains, queue=queue, status=status, name=name, limit=limit, after=place)
        return self._read(find, now)

    def resume(
        self,
        queue: str,
        domain: str,
        action: ResumeAction = ResumeAction.RESUME,
        *,
        position: int | None = None,
        now: int | None = None,
    ) -> bool:
        """Let a halted domain go on, as ``action`` says; return whether this call changed the domain."""
        self._validation.check_resume(queue, domain, action, position)
        return self._write(lambda tx: domain_admin.resume(tx, queue, domain, action, position), now)

    def forget_domain(self, queue: str, domain: str) -> bool:
        """Remove what a domain without open jobs remembers: its ended offsets, its start and its halt."""
        self._validation.check_forget_domain(queue, domain)
        return self._write(lambda tx: domain_admin.forget(tx, queue, domain))

    # Ledger -----------------------------------------------------------------------------------------------------

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return a page of the ledger, in an order that is fixed and has no gaps (L13)."""
        self._validation.check_page(limit)
        return self._read(lambda tx: ledger.page(tx, after, limit))

    def ledger_end(self) -> str:
        """Return the cursor of the end: ``ledger`` after it has only rows that are written from now on."""
        return self._read(lambda tx: str(tx.ledger_end()))

    def ledger_tail(self, before: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return the last ``limit`` rows up to the cursor ``before``, in the order of the ledger; None is the end."""
        self._validation.check_page(limit)
        return self._read(lambda tx: ledger.tail(tx, before, limit))

    def ledger_tuples(self, after: str | None, limit: int) -> tuple[Sequence[Sequence[Any]], str]:
        """Return a page of tuples and its cursor."""
        self._validation.check_page(limit)
        return self._read(lambda tx: ledger.tuples(tx, after, limit))

    def ledger_marks(self, after: str | None, *, every: int, most: int) -> list[tuple[str, int]]:
        """Return cursors that split the next ``most`` rows into ranges of ``every`` rows."""
        self._validation.check_page(every)
        return self._read(lambda tx: ledger.marks(tx, after, every, most))

    # Spaces -----------------------------------------------------------------------------------------------------

    def spaces(
        self, *, after: str = "", limit: int = 100, has_expired_leases: bool = False, now: int | None = None
    ) -> Page[str]:
        """Return a page of the names of the spaces that have rows, in order."""
        self._validation.check_spaces(after, limit)
        list_page = spaces.list_expired if has_expired_leases else spaces.list_spaces
        return self._read(lambda tx: list_page(tx, after=after, limit=limit), now)

    def remove_space(
        self, name: str, *, force: bool = False, limit: int = bounds.MAX_BATCH_ITEMS, now: int | None = None
    ) -> SpaceRemoval:
        """Remove up to ``limit`` rows of a space: its jobs, ledger, keys, settings and registry."""
        self._validation.check_page(limit)
        return self.space(name)._write(lambda tx: spaces.remove(tx, limit=limit, force=force), now)  # noqa: SLF001 - this class

    # Registry ---------------------------------------------------------------------------------------------------

    def read(self, kind: str, keys: Sequence[str], *, now: int | None = None) -> list[Entry | None]:
        """Return the entries under these keys, in order; None where there is none or it has expired."""
        self._validation.check_read(kind, keys)
        return self._read(lambda tx: [registry.read(tx, kind, key) for key in keys], now)

    def write(self, changes: Sequence[Change], *, now: int | None = None) -> list[Entry | None]:
        """Make the changes in order, each only if the entry has the expected version."""
        self._validation.check_write(changes)
        return self._write(lambda tx: registry.write(tx, changes), now)

    def scan(
        self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100, now: int | None = None
    ) -> list[Entry]:
        """Return the entries of a kind whose keys begin with ``prefix``, ordered by key, after the key ``after``."""
        self._validation.check_scan(kind, prefix, after, limit)
        return self._read(lambda tx: registry.scan(tx, kind, prefix, after, limit), now)

    # Transactions -----------------------------------------------------------------------------------------------

    def _write(self, work: Callable[[Transaction], T], now: int | None = None) -> T:
        """Run ``work`` in a write transaction; its effect is durable when this returns."""
        self._validation.caller_now(now)  # refused here: inside, an error would end a transaction that others share
        return self._database.write(lambda connection: self._run(connection, work, now))

    def _write_remembered(self, work: Callable[[Transaction], T], now: int | None) -> T:
        """Run ``work`` like ``_write``, and remember the leases that it ended as expired."""
        answer, expired = self._write(lambda tx: (work(tx), tx.expired), now)
        if expired is not None:
            self._expired.add(expired)
        return answer

    def _read(self, work: Callable[[Transaction], T], now: int | None = None) -> T:
        """Run ``work`` on a snapshot of the database."""
        self._validation.caller_now(now)
        return self._database.read(lambda connection: self._run(connection, work, now))

    def _run(self, connection: sqlite3.Connection, work: Callable[[Transaction], T], now: int | None) -> T:
        tx = Transaction(connection, self._space, host_now=self._clock.now(), caller_now=now)
        answer = work(tx)
        tx.finish()
        return answer


def open_url(url: SplitResult, *, space: str, caller_clock: bool, clock: Clock | None) -> SqliteDriver:
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
    return SqliteDriver(database, clock=clock, caller_clock=caller_clock, space=space)


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
