"""The PostgreSQL engine: a method per request, each a function of a topic module."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from urllib.parse import SplitResult

import psycopg

from holdfast.clock import Clock
from holdfast.drivers import requests as r
from holdfast.drivers.answers import (
    Diagnosis,
    Inspection,
    JobColumns,
    LedgerTuples,
    Page,
    QueueCounts,
    Reaped,
    Reserved,
    SpaceRemoval,
    Stored,
    TableHealth,
    Trimmed,
)
from holdfast.drivers.capabilities import Capabilities, Durability
from holdfast.drivers.engine import Engine
from holdfast.drivers.packing import read_ledger_row
from holdfast.drivers.postgres import admin, domains, enqueue, estimates, ledger, registry, reserve, settle, spaces
from holdfast.drivers.postgres.cancel_wait import CancelWaiter
from holdfast.drivers.postgres.commit_outcome import run_once
from holdfast.drivers.postgres.connections import Connection, ConnectionPool
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.errors import translate_error
from holdfast.drivers.postgres.joined import JoinedTransactions
from holdfast.drivers.postgres.listen import Listener
from holdfast.drivers.postgres.lost_answers import LostAnswers
from holdfast.drivers.postgres.migrations import install
from holdfast.drivers.postgres.statements import Statements
from holdfast.drivers.postgres.timing import PostgresTiming
from holdfast.drivers.postgres.url import LISTEN_OFF, read_url
from holdfast.drivers.postgres.wait import Waiter
from holdfast.drivers.store import Store
from holdfast.errors import LeaseError, StoreError, StoreUnavailable, WriteRefused
from holdfast.model import bounds
from holdfast.model.domain import DomainInfo
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Entry

OLDEST_SERVER_VERSION = 140_000  # xid8 and its functions are from 13, SQL-standard function bodies from 14

CAPABILITIES = Capabilities(
    driver="postgres",
    durability=Durability.FSYNC,  # with the usual settings of a server; the real ones are read when a store is opened
)


class PostgresEngine(Engine):
    """One space of a database: durable, for any number of processes and machines.

    Transactions that enqueue run concurrently, so arrivals are not serial. The numbers of transactions that were rolled
    back are missing in the ledger, so its cursors are no row numbers.
    """

    def __init__(
        self,
        database: Database,
        listener: Listener | None,
        *,
        durability: Durability,
        caller_clock: bool = False,
    ) -> None:
        self.can = replace(CAPABILITIES, durability=durability)
        self.space_name = database.space
        self.caller_clock = caller_clock
        self._database = database
        self._listener = listener
        self._waiter = Waiter(database, listener)
        self._cancel_waiter = CancelWaiter(database, listener)
        self._lost_answers = LostAnswers()
        self._joined = JoinedTransactions(database)

    def open_space(self, name: str) -> PostgresEngine:
        """Return another space of the database."""
        return PostgresEngine(
            self._database.with_space(name),
            self._listener,
            durability=self.can.durability,
            caller_clock=self.caller_clock,
        )

    def close(self) -> None:
        """Close the connections."""
        self._database.pool.close()
        if self._listener is not None:
            self._listener.stop()

    def count_stray_payloads(self) -> int:
        """Return how many large payloads have no job: none, unless rows were changed by hand; at most REAP_LIMIT."""
        [(count,)] = self._database.query("admin/count_stray_payloads", {"limit": r.REAP_LIMIT})
        return int(count)

    def _notify_own_threads(self) -> None:
        """Wake the waiting threads of this process without a round trip."""
        if self._listener is not None:
            self._listener.notify(self._database.space)

    # The core ---------------------------------------------------------------------------------------------------

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Store jobs, alone or in the transaction of a caller."""
        if request.connection is not None:
            return Stored(self._joined.enqueue(request) if request.jobs else [])
        self._database.pool.check_open()
        if not request.jobs:
            return Stored([])
        if request.writes:
            return Stored(self._enqueue_with_writes(request))
        if request.lease is not None:
            # When the reply is lost, the repeated call finds that all jobs exist; leases that were granted expire.
            work = partial(enqueue.enqueue_leased_on, self._database, request=request)
        elif request.replace_dead_before is not None:
            cursors = self.reader_cursors(request.now)
            work = partial(enqueue.enqueue_replacing, self._database, request=request, cursors=cursors)
        else:
            work = partial(enqueue.enqueue_alone, self._database, request=request)
        stored = self._database.run(work, is_repeatable=True)
        if not stored.reservations:
            self._notify_own_threads()
        return stored

    def _enqueue_with_writes(self, request: r.Enqueue) -> list[Enqueued]:
        def work(connection: Connection) -> list[Enqueued] | WriteRefused:
            try:
                return enqueue.enqueue_on(
                    self._database, connection, request.jobs, request.writes, request.now, owns_transaction=True
                )
            except WriteRefused as refused:  # an error would close the connection
                return refused

        enqueued = run_once(self._database, work)
        if isinstance(enqueued, WriteRefused):
            raise enqueued
        self._notify_own_threads()
        return enqueued

    def reserve(self, request: r.Reserve) -> Reserved:
        """Lease jobs."""
        mark = self._waiter.mark()
        reservations, ended = reserve.reserve(self._database, self._lost_answers, request)
        return Reserved(reservations, self._read_ended(ended), mark)

    def extend(self, request: r.Extend) -> list[Lease | LeaseError]:
        """Extend leases."""
        return settle.extend(self._database, request)

    def settle(self, request: r.Settle) -> list[LeaseError | None]:
        """End leases."""
        if not request.settlements:
            self._database.pool.check_open()
            return []
        return settle.settle(self._database, request.settlements, request.now)

    def reap(self, request: r.Reap) -> Reaped:
        """End leases that have expired."""
        if request.leases is None:
            count, ended = reserve.reap(self._database, request)
            return Reaped(count, self._read_ended(ended))
        reported, ended = settle.report_outage(self._database, request.leases, request.now)
        return Reaped(sum(reported), self._read_ended(ended), reported)

    def _read_ended(self, transactions: list[int]) -> list[LedgerRow]:
        """Return the ledger rows of leases that these transactions ended; none if the store fails meanwhile."""
        if transactions:
            with suppress(StoreError):
                rows = self._database.query_page("ledger/of_transactions", {"xids": transactions})
                return [read_ledger_row(row) for row in rows]  # the transactions have ended: no horizon is needed
        return []

    def inspect(self, request: r.Inspect) -> dict[str, Inspection]:
        """Return jobs by their ids."""
        return admin.inspect(self._database, request)

    def wait(self, request: r.Wait) -> None:
        """Wait for a notification, and poll now and then."""
        self._waiter.wait(request)

    def wait_for_cancel(self, request: r.WaitForCancel) -> bool:
        """Wait for a notification, and poll now and then."""
        return self._cancel_waiter.wait(request.job_ids, request.timeout)

    # Jobs -------------------------------------------------------------------------------------------------------

    def find(self, request: r.Find) -> Page[JobRecord]:
        """Return a page of jobs."""
        return admin.find(self._database, request)

    def read_columns(self, request: r.ReadColumns) -> JobColumns:
        """Return a page of jobs as columns, and read only these."""
        return admin.read_columns(self._database, request)

    def any_open(self, request: r.AnyOpen) -> bool:
        """Whether a job is open."""
        parameters = {"queues": list(request.queues), "types": list(request.types)}
        [(is_open,)] = self._database.query_page("admin/any_open", parameters)
        return bool(is_open)

    def counts(self, request: r.Counts) -> list[QueueCounts]:
        """Count jobs."""
        count = estimates.estimate_counts if request.estimate else admin.counts
        return count(self._database, request.queues, request.counted, request.now)

    def requeue(self, request: r.Requeue) -> list[bool]:
        """Make ended jobs ready again."""
        return admin.requeue(self._database, request.job_ids, request.now)

    def cancel(self, request: r.Cancel) -> list[State | None]:
        """Cancel jobs."""
        states = admin.cancel(self._database, request.job_ids, request.now)
        if State.INFLIGHT in states:
            self._cancel_waiter.notify_own_threads()
        return states

    def purge(self, request: r.Purge) -> list[bool]:
        """Remove ended jobs."""
        return admin.purge(self._database, request.job_ids, self.reader_cursors(request.now), request.now)

    def trim(self, request: r.Trim) -> Trimmed:
        """Remove old rows."""
        keep, cursors = self.retention_of(request), self.reader_cursors(request.now)
        return admin.trim(self._database, request.now, keep, cursors, limit=request.limit)

    def diagnose(self, request: r.Diagnose) -> Diagnosis:
        """Return facts about the database."""
        expired = {"expired_for": request.expired_for, "limit": r.REAP_LIMIT, "now": request.now}
        [(expired_leases,)] = self._database.query_page("admin/count_expired_leases", expired)
        schema = {"schema": self._database.statements.schema}
        [health] = self._database.query("admin/table_health", schema)
        return Diagnosis(
            expired_leases=expired_leases,
            table_sizes=dict(self._database.query("admin/table_sizes", schema)),
            table_health=TableHealth(*health),
            trimmed_rows=0 if ledger.is_whole(self._database) else None,
            ledger_delay=ledger.delay(self._database),
        )

    # Queues and domains -----------------------------------------------------------------------------------------

    def configure(self, request: r.Configure) -> None:
        """Replace settings."""
        admin.configure(self._database, request.queue, request.type, request.settings, request.only)

    def settings(self, request: r.Settings) -> QueueSettings:
        """Return settings."""
        return admin.settings(self._database, request.queue, request.type)

    def domains(self, request: r.Domains) -> Page[DomainInfo]:
        """Return a page of domains."""
        return domains.domains(self._database, request)

    def resume(self, request: r.Resume) -> bool:
        """Let a domain go on."""
        is_changed = domains.resume(self._database, request)
        if is_changed:
            self._notify_own_threads()
        return is_changed

    def forget_domain(self, request: r.ForgetDomain) -> bool:
        """Remove what a domain remembers."""
        return domains.forget_domain(self._database, request.queue, request.domain)

    # Ledger -----------------------------------------------------------------------------------------------------

    def ledger(self, request: r.Ledger) -> Page[LedgerRow]:
        """Return a page of the ledger."""
        return ledger.page(self._database, request.after, request.limit)

    def ledger_end(self, request: r.LedgerEnd) -> str:
        """Return the cursor of the end."""
        del request
        return ledger.end(self._database)

    def ledger_tail(self, request: r.LedgerTail) -> Page[LedgerRow]:
        """Return the last rows."""
        return ledger.tail(self._database, request.before, request.limit)

    def read_tuples(self, request: r.ReadTuples) -> LedgerTuples:
        """Return the rows as the server sends them."""
        return LedgerTuples(*ledger.tuples(self._database, request.after, request.limit))

    def ledger_marks(self, request: r.LedgerMarks) -> list[tuple[str, int]]:
        """Find the cursors by the index."""
        return ledger.marks(self._database, request.after, every=request.every, most=request.most)

    # Registry and spaces ----------------------------------------------------------------------------------------

    def read(self, request: r.Read) -> list[Entry | None]:
        """Return entries by their keys."""
        return registry.read(self._database, request.kind, request.keys, request.now)

    def write(self, request: r.Write) -> list[Entry | None]:
        """Change entries."""
        return registry.write(self._database, request)

    def scan(self, request: r.Scan) -> list[Entry]:
        """Return a page of entries."""
        return registry.scan(self._database, request)

    def spaces(self, request: r.Spaces) -> Page[str]:
        """Return a page of spaces."""
        return spaces.list_spaces(self._database, request)

    def remove_space(self, request: r.RemoveSpace) -> SpaceRemoval:
        """Remove rows of a space."""
        return spaces.remove(self._database.with_space(request.name), limit=request.limit, force=request.force)


def open_url(
    url: SplitResult,
    *,
    space: str,
    caller_clock: bool,
    clock: Clock | None,  # noqa: ARG001 - the server's clock judges
    timing: PostgresTiming = PostgresTiming(),
) -> Store:
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
    return Store(PostgresEngine(database, listener, durability=durability, caller_clock=caller_clock))


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
