"""The PostgreSQL driver: each verb validates its arguments and runs one function of a topic module."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self
from urllib.parse import SplitResult

import psycopg

from holdfast.clock import Clock
from holdfast.drivers.capabilities import Capabilities, Durability
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
from holdfast.drivers.optional import LedgerDelay, SpaceRemoval
from holdfast.drivers.postgres import (
    admin,
    domains,
    enqueue,
    estimates,
    ledger,
    registry,
    reserve,
    settle,
    spaces,
)
from holdfast.drivers.postgres.admin import TableHealth
from holdfast.drivers.postgres.caller_connection import CallerConnection, PsycopgConnection
from holdfast.drivers.postgres.cancel_wait import CancelWaiter
from holdfast.drivers.postgres.commit_outcome import run_once
from holdfast.drivers.postgres.connections import Connection, ConnectionPool
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.errors import translate_error
from holdfast.drivers.postgres.joined import DatabaseIdentity, JoinedPostgres, read_transaction
from holdfast.drivers.postgres.listen import Listener
from holdfast.drivers.postgres.lost_answers import LostAnswers
from holdfast.drivers.postgres.migrations import install
from holdfast.drivers.postgres.statements import Statements
from holdfast.drivers.postgres.timing import PostgresTiming
from holdfast.drivers.postgres.url import LISTEN_OFF, read_url
from holdfast.drivers.postgres.wait import Waiter
from holdfast.drivers.remembered_calls import RememberedCalls
from holdfast.drivers.validation import Validation
from holdfast.errors import LeaseError, StoreUnavailable, WriteRefused
from holdfast.model import bounds
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Settlement

OLDEST_SERVER_VERSION = 140_000  # xid8 and its functions are from 13, SQL-standard function bodies from 14

CAPABILITIES = Capabilities(
    driver="postgres",
    durability=Durability.FSYNC,  # with the usual settings of a server; the real ones are read when a store is opened
)


class PostgresDriver:
    """One space of a database: durable, for any number of processes and machines."""

    def __init__(
        self,
        database: Database,
        listener: Listener | None,
        *,
        durability: Durability,
        caller_clock: bool = False,
    ) -> None:
        self._database = database
        self._listener = listener
        self._waiter = Waiter(database, listener)
        self._lost_answers = LostAnswers()
        self._expired: RememberedCalls[int] = RememberedCalls()
        self._cancel_waiter = CancelWaiter(database, listener)
        self._caller_clock = caller_clock
        self._identity: DatabaseIdentity | None = None
        self.capabilities = replace(CAPABILITIES, durability=durability)
        self._validation = Validation(self.capabilities, caller_clock=caller_clock, read_clock=database.now)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        caller_now = self._validation.caller_now(now)
        self._database.pool.check_open()
        if writes:
            return self._enqueue_with_writes(jobs, writes, caller_now)
        if not jobs:
            return []
        work = partial(
            enqueue.enqueue_on,
            self._database,
            jobs=jobs,
            writes=(),
            caller_now=caller_now,
            owns_transaction=True,
        )
        if replace_dead_before is not None:
            work = partial(
                enqueue.enqueue_replacing,
                self._database,
                jobs=jobs,
                before=replace_dead_before,
                cursors=self._validation.reader_cursors(self, now=now),
                caller_now=caller_now,
            )
        enqueued = self._database.run(work, is_repeatable=True)
        self._notify_own_threads()
        return enqueued

    def _enqueue_with_writes(
        self, jobs: Sequence[JobRecord], writes: Sequence[Change], caller_now: int | None
    ) -> list[Enqueued]:
        def work(connection: Connection) -> list[Enqueued] | WriteRefused:
            try:
                return enqueue.enqueue_on(self._database, connection, jobs, writes, caller_now, owns_transaction=True)
            except WriteRefused as refused:  # an error would close the connection
                return refused

        enqueued = run_once(self._database, work)
        if isinstance(enqueued, WriteRefused):
            raise enqueued
        self._notify_own_threads()
        return enqueued

    def enqueue_on(
        self, connection: Connection, jobs: Sequence[JobRecord], writes: Sequence[Change], *, now: int | None
    ) -> list[Enqueued]:
        """Enqueue inside the transaction of a connection that the caller commits, or rolls back."""
        self._check_enqueue(jobs, writes)
        caller_now = self._validation.caller_now(now)
        if not jobs:
            return []
        return enqueue.enqueue_on(self._database, connection, jobs, writes, caller_now, owns_transaction=False)

    def enqueue_with(
        self, caller: CallerConnection, jobs: Sequence[JobRecord], writes: Sequence[Change], *, now: int | None
    ) -> list[Enqueued]:
        """Enqueue inside the transaction of a connection that is not one of psycopg, or is async."""
        self._check_enqueue(jobs, writes)
        return enqueue.enqueue_with(self._database, caller, jobs, writes, self._validation.caller_now(now))

    def _check_enqueue(self, jobs: Sequence[JobRecord], writes: Sequence[Change]) -> None:
        self._validation.check_enqueue(jobs)
        if writes:
            self._validation.check_enqueue_writes(jobs, writes)

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """Enqueue the jobs and lease all of them, or none of them, in one transaction.

        Leases large ``JobBatch`` values only.

        When the reply is lost, the repeated call finds that all jobs exist; leases that were granted expire.
        """
        self._validation.check_enqueue(jobs)
        self._validation.check_lease(lease_for, worker)
        caller_now = self._validation.caller_now(now)
        self._database.pool.check_open()
        if not jobs:
            return [], []
        enqueued, reservations = self._database.run(
            lambda connection: enqueue.enqueue_leased_on(
                self._database, connection, jobs, caller_now, lease_for=lease_for, worker=worker
            ),
            is_repeatable=True,
        )
        if not reservations:
            self._notify_own_threads()
        return enqueued, reservations

    def _notify_own_threads(self) -> None:
        """Wake the waiting threads of this process without a round trip."""
        if self._listener is not None:
            self._listener.notify(self._database.space)

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
        reservations = reserve.reserve(
            self._database,
            self._lost_answers,
            self._expired,
            names,
            self._validation.caller_now(now),
            limit=limit,
            lease_for=lease_for,
            worker=worker,
            types=types,
            max_bytes=max_bytes,
            isolation=isolation,
            prefetch=prefetch,
        )
        if reservations:
            self._waiter.note_reservation()
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
        caller_now = self._validation.caller_now(now)
        return settle.extend(self._database, leases, caller_now, lease_for=lease_for, notes=notes or {})

    def settle(self, settlements: Sequence[Settlement], *, now: int | None = None) -> list[LeaseError | None]:
        """End leases, each as its settlement says; return None or the refusal of each one, in order."""
        self._validation.check_settle(settlements)
        caller_now = self._validation.caller_now(now)
        if not settlements:
            self._database.pool.check_open()
            return []
        return settle.settle(self._database, settlements, caller_now)

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
        caller_now = self._validation.caller_now(now)
        return reserve.reap(self._database, self._expired, names, caller_now, worker=worker, limit=limit)

    def report_outage(self, leases: Sequence[Lease], *, now: int | None = None) -> list[bool]:
        """Report leases that expired while the caller could not reach the store."""
        self._validation.check_leases(leases)
        return settle.report_outage(self._database, self._expired, leases, self._validation.caller_now(now))

    def take_expired(self) -> list[LedgerRow]:
        """Return the ledger rows of the leases that ``reserve``, ``reap`` and ``report_outage`` ended as expired."""
        calls = self._expired.take()
        return ledger.rows_of_transactions(self._database, calls) if calls else []

    def wait(self, queues: Sequence[str], *, timeout: float) -> None:
        """Block until a job of these queues may be due, for at most ``timeout`` seconds."""
        self._waiter.wait(self._validation.check_wait(queues, timeout), timeout)

    def wait_for_cancel(self, job_ids: Collection[str], *, timeout: float) -> bool:
        """Block until a cancel is requested for one of these jobs in flight, for at most ``timeout`` seconds."""
        self._validation.check_wait_for_cancel(job_ids, timeout)
        return self._cancel_waiter.wait(job_ids, timeout)

    @property
    def space_name(self) -> str:
        """The name of the space."""
        return self._database.space

    def space(self, name: str) -> PostgresDriver:
        """Return another space of the same store, on the same connections."""
        return PostgresDriver(
            self._database.with_space(bounds.check_name("space", name)),
            self._listener,
            durability=self.capabilities.durability,
            caller_clock=self._caller_clock,
        )

    def joined(self, connection: object) -> JoinedPostgres:
        """Return a driver that enqueues in the caller's own transaction; its other verbs raise ``Unsupported``.

        The connection leads to the same database, and its transaction is READ COMMITTED.
        """
        return JoinedPostgres(self, connection)

    def read_identity(self, *, refresh: bool = False) -> DatabaseIdentity:
        """Return which database this store is in; remembered, unless ``refresh``."""
        if self._identity is None or refresh:
            _, self._identity = self._database.run(
                lambda connection: read_transaction(PsycopgConnection(connection)), is_repeatable=True
            )
        return self._identity

    def close(self) -> None:
        """Close the connections, also those of the spaces."""
        self._database.pool.close()
        if self._listener is not None:
            self._listener.stop()

    # Admin ------------------------------------------------------------------------------------------------------

    def get(self, job_id: str) -> JobRecord | None:
        """Return a job in any state; None if the space has no job with this id."""
        return admin.get(self._database, bounds.check_name("id", job_id))

    def inspect(self, job_ids: Sequence[str], *, payloads: bool = True) -> dict[str, Inspection]:
        """Return these jobs, in any state, with their leases and notes, by id."""
        self._validation.check_ids(job_ids)
        return admin.inspect(self._database, job_ids, payloads=payloads)

    def find(
        self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None, newest: bool = False
    ) -> Page[JobRecord]:
        """Return a page of the jobs that match, ordered by id."""
        self._validation.check_find(limit, after)
        return admin.find(self._database, where or JobFilter(), limit=limit, after=after, newest=newest)

    def job_columns(
        self, where: JobFilter, names: Sequence[str], *, limit: int, after: str | None = None
    ) -> tuple[Sequence[Sequence[object]], str | None]:
        """Return a page as columns, one per name of a ``JobRecord`` field, and its cursor."""
        self._validation.check_find(limit, after)
        return admin.job_columns(self._database, where, names, limit=limit, after=after)

    def webhooks(self, job_ids: Sequence[str]) -> dict[str, str]:
        """Return the webhooks of these jobs, in any state, by job id."""
        self._validation.check_ids(job_ids)
        return admin.webhooks(self._database, job_ids)

    def any_open(self, queues: Sequence[str], types: Collection[str]) -> bool:
        """Whether a job of these types is ready, scheduled or in flight in these queues."""
        queue_names, type_names = self._validation.check_any_open(queues, types)
        return admin.any_open(self._database, queue_names, type_names)

    def count_expired_leases(self, *, expired_for: int = 0, now: int | None = None) -> int:
        """Return how many leases expired at least so many microseconds ago and were not reaped; at most REAP_LIMIT."""
        return admin.count_expired_leases(self._database, expired_for, self._validation.caller_now(now))

    def table_sizes(self) -> dict[str, int]:
        """Return the bytes that each table takes with its indexes, or each part of a store without sizes of tables."""
        return admin.table_sizes(self._database)

    def counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Return one row per queue and type that has jobs, ordered by both."""
        counted = self._validation.check_counts(queues, states)
        return admin.counts(self._database, queues, counted, self._validation.caller_now(now))

    def estimate_counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Return what ``counts`` returns, and read a bounded number of rows, whatever the space contains."""
        counted = self._validation.check_counts(queues, states)
        return estimates.estimate_counts(self._database, queues, counted, self._validation.caller_now(now))

    @property
    def has_serial_arrivals(self) -> bool:
        """Whether of two calls of enqueue one always commits before the other reads the clock.

        Transactions that enqueue run concurrently.
        """
        return False

    def arrivals(self, job_ids: Sequence[str]) -> dict[str, int]:
        """Return the places of these jobs in the order of arrival (L11); a requeued job arrives again."""
        self._validation.check_ids(job_ids)
        return admin.arrivals(self._database, job_ids)

    @property
    def has_numbered_ledger(self) -> bool:
        """Whether the cursor of a ledger row is its number, which counts all rows of the space from 1.

        The numbers of transactions that were rolled back are missing.
        """
        return False

    def trimmed_rows(self) -> int | None:
        """Return how many ledger rows ``trim`` has removed; None if it has removed some and does not count them."""
        return 0 if ledger.is_whole(self._database) else None

    def requeue(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Make dead or cancelled jobs ready again, attempts and crashes set to 0, as the last of their lanes (L9)."""
        self._validation.check_ids(job_ids)
        return admin.requeue(self._database, job_ids, self._validation.caller_now(now))

    def cancel(self, job_ids: Sequence[str], *, now: int | None = None) -> list[State | None]:
        """Cancel ready jobs at once, and request cancellation of running jobs."""
        self._validation.check_ids(job_ids)
        states = admin.cancel(self._database, job_ids, self._validation.caller_now(now))
        if State.INFLIGHT in states:
            self._cancel_waiter.notify_own_threads()
        return states

    def purge(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Remove ended jobs, each with a ``purged`` ledger row."""
        self._validation.check_ids(job_ids)
        cursors = self._validation.reader_cursors(self, now=now)
        return admin.purge(self._database, job_ids, cursors, self._validation.caller_now(now))

    def configure(
        self, queue: str, settings: QueueSettings, *, type: str | None = None, only: Collection[str] | None = None
    ) -> None:
        """Replace the settings of a queue, or of one type in it."""
        self._validation.check_settings(queue, settings, type, only)
        admin.configure(self._database, queue, type, settings, only)

    def settings(self, queue: str, *, type: str | None = None) -> QueueSettings:
        """Return the settings of a queue, or of one type in it; the defaults if none were configured."""
        self._validation.check_settings(queue, None, type)
        return admin.settings(self._database, queue, type)

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
        return admin.trim(self._database, self._validation.caller_now(now), keep, cursors, limit=limit)

    def table_health(self) -> TableHealth:
        """Return the state of the hot tables, for ``holdfast doctor``."""
        return admin.table_health(self._database)

    # Domains ----------------------------------------------------------------------------------------------------

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
        start = self._validation.check_domains(queue, status, name, limit, after)
        caller_now = self._validation.caller_now(now)
        return domains.domains(
            self._database, caller_now, queue=queue, status=status, name=name, limit=limit, after=start
        )

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
        caller_now = self._validation.caller_now(now)
        is_changed = domains.resume(
            self._database, caller_now, queue=queue, domain=domain, action=action, position=position
        )
        if is_changed:
            self._notify_own_threads()
        return is_changed

    def forget_domain(self, queue: str, domain: str) -> bool:
        """Remove what a domain without open jobs remembers: its ended offsets, its start and its halt."""
        self._validation.check_forget_domain(queue, domain)
        return domains.forget_domain(self._database, queue, domain)

    # Ledger -----------------------------------------------------------------------------------------------------

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return a page of the ledger, in an order that is fixed and has no gaps (L13)."""
        self._validation.check_page(limit)
        return ledger.page(self._database, after, limit)

    def ledger_end(self) -> str:
        """Return the cursor of the end: ``ledger`` after it has only rows that are written from now on."""
        return ledger.end(self._database)

    def ledger_tail(self, before: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return the last ``limit`` rows up to the cursor ``before``, in the order of the ledger; None is the end."""
        self._validation.check_page(limit)
        return ledger.tail(self._database, before, limit)

    def ledger_delay(self) -> LedgerDelay | None:
        """Return the transaction that delays the readers of the ledger; None if there is none."""
        return ledger.delay(self._database)

    def ledger_tuples(self, after: str | None, limit: int) -> tuple[Sequence[Sequence[Any]], str]:
        """Return a page of tuples and its cursor."""
        self._validation.check_page(limit)
        return ledger.tuples(self._database, after, limit)

    def ledger_marks(self, after: str | None, *, every: int, most: int) -> list[tuple[str, int]]:
        """Return cursors that split the next ``most`` rows into ranges of ``every`` rows."""
        self._validation.check_page(every)
        return ledger.marks(self._database, after, every=every, most=most)

    # Spaces -----------------------------------------------------------------------------------------------------

    def spaces(
        self, *, after: str = "", limit: int = 100, has_expired_leases: bool = False, now: int | None = None
    ) -> Page[str]:
        """Return a page of the names of the spaces that have rows, in order."""
        self._validation.check_spaces(after, limit)
        caller_now = self._validation.caller_now(now)
        if has_expired_leases:
            return spaces.list_expired(self._database, caller_now, after=after, limit=limit)
        return spaces.list_spaces(self._database, after=after, limit=limit)

    def remove_space(
        self, name: str, *, force: bool = False, limit: int = bounds.MAX_BATCH_ITEMS, now: int | None = None
    ) -> SpaceRemoval:
        """Remove up to ``limit`` rows of a space: its jobs, ledger, keys, settings and registry."""
        self._validation.check_page(limit)
        self._validation.caller_now(now)
        database = self._database.with_space(bounds.check_name("space", name))
        return spaces.remove(database, limit=limit, force=force)

    # Registry ---------------------------------------------------------------------------------------------------

    def read(self, kind: str, keys: Sequence[str], *, now: int | None = None) -> list[Entry | None]:
        """Return the entries under these keys, in order; None where there is none or it has expired."""
        self._validation.check_read(kind, keys)
        return registry.read(self._database, kind, keys, self._validation.caller_now(now))

    def write(self, changes: Sequence[Change], *, now: int | None = None) -> list[Entry | None]:
        """Make the changes in order, each only if the entry has the expected version."""
        self._validation.check_write(changes)
        return registry.write(self._database, changes, self._validation.caller_now(now))

    def scan(
        self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100, now: int | None = None
    ) -> list[Entry]:
        """Return the entries of a kind whose keys begin with ``prefix``, ordered by key, after the key ``after``."""
        self._validation.check_scan(kind, prefix, after, limit)
        caller_now = self._validation.caller_now(now)
        return registry.scan(self._database, kind, caller_now, prefix=prefix, after=after, limit=limit)


def open_url(
    url: SplitResult,
    *,
    space: str,
    caller_clock: bool,
    clock: Clock | None,  # noqa: ARG001 - the server's clock judges
    timing: PostgresTiming = PostgresTiming(),
) -> PostgresDriver:
    """Open ``postgresql://user@host/database`` with the options of ``url``; installs or upgrades the tables."""
    options = read_url(url)
    bounds.check_name("space", space)
    pool = ConnectionPool(options.conninfo, size=options.connections, patience=options.patience)
    try:
        with pool.open() as connection:
            durability = _check_server(connection)
            install(connection, options.schema)
    except psycopg.Error as error:
        raise translate_error(error) from error
    listener = None if options.listen == LISTEN_OFF else Listener(pool, options.listen, options.schema, timing)
    channel = None if listener is None else listener.channel
    database = Database(pool, Statements(options.schema), space=space, channel=channel, timing=timing)
    return PostgresDriver(database, listener, durability=durability, caller_clock=caller_clock)


def _check_server(connection: Connection) -> Durability:
    """Return the durability that the server is set to. Raises ``StoreUnavailable`` if the functions cannot run."""
    if connection.info.server_version < OLDEST_SERVER_VERSION:
        raise StoreUnavailable(f"wanted PostgreSQL 14 or newer, got {connection.info.server_version // 10_000}")
    [(fsync, synchronous_commit, isolation)] = connection.execute(
        "SELECT current_setting('fsync'), current_setting('synchronous_commit'), "
        "current_setting('default_transaction_isolation')"
    ).fetchall()
    if isolation != "read committed":
        raise StoreUnavailable(
            f"wanted default_transaction_isolation = read committed for this database and role, got {isolation}: every "
            "statement of a verb must see what was committed before it"
        )
    return Durability.FSYNC if fsync == "on" and synchronous_commit != "off" else Durability.PROCESS
