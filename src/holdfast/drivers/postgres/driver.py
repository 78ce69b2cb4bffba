"""The verbs of the PostgreSQL driver: each checks at the door, then is one call of one function in the database."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Self
from urllib.parse import SplitResult

import psycopg

from holdfast.clock import SECOND, Clock, monotonic
from holdfast.drivers.contract import REAP_LIMIT, Capabilities, Durability, Feature
from holdfast.drivers.postgres import batch, migrations
from holdfast.drivers.postgres.arrays import bigints, blobs, names
from holdfast.drivers.postgres.connections import Connection, Connections
from holdfast.drivers.postgres.enqueue import enqueue_leased_on, enqueue_on
from holdfast.drivers.postgres.failures import translated
from holdfast.drivers.postgres.joined import JoinedPostgres
from holdfast.drivers.postgres.listen import Listener
from holdfast.drivers.postgres.rows import Row, reservation
from holdfast.drivers.postgres.scan import PostgresScan
from holdfast.drivers.postgres.statements import Statements
from holdfast.drivers.postgres.url import OFF, read
from holdfast.drivers.validation import Validation
from holdfast.errors import (
    JobNotInflight,
    LeaseError,
    LeaseExpired,
    LeaseMismatch,
    StoreUnavailable,
    WriteRefused,
)
from holdfast.model import bounds
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued, Lease, Note, Reservation, token_bytes
from holdfast.model.settlement import Settlement

OLDEST_SERVER = 140_000  # xid8 and its functions are from 13, SQL-standard function bodies from 14
LOOK_FIRST = 0.02  # seconds between two looks for work, doubled while there is none ...
LOOK_AT_LEAST_EVERY = 0.5  # ... up to this without a listener,
LOOK_RARELY = 2.0  # ... and this with one that hears


PROMISES = Capabilities(
    driver="postgres",
    durability=Durability.FSYNC,  # of a server with its usual settings; what it really has is asked for
    gaps={
        Feature.OFFSETS: "domains run in order of arrival",
        Feature.HALT: "a domain goes on when its head fails for good",
    },
)


class PostgresDriver(PostgresScan):
    """For any number of processes and machines."""

    def __init__(
        self,
        connections: Connections,
        statements: Statements,
        listener: Listener | None,
        *,
        durability: Durability,
        caller_clock: bool = False,
        space: str = "main",
    ) -> None:
        super().__init__(
            connections,
            statements,
            None if listener is None else listener.channel,
            caller_clock=caller_clock,
            space=bounds.check_name("space", space),
        )
        self._listener = listener
        self._durability = durability
        self._blocked = threading.local()  # .times in a row that this thread was told of work and then got none
        self.capabilities = replace(PROMISES, durability=durability)
        self.validation = Validation(self.capabilities, caller_clock=caller_clock, read_clock=self._read_clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int | None = None) -> list[Enqueued]:
        """See ``Driver.enqueue``."""
        self.validation.check_enqueue(jobs)
        given = self.validation.caller_now(now)
        self._connections.check_open()
        if not jobs:
            return []
        answers = self._connections.call(
            lambda connection: enqueue_on(self, connection, jobs, given, alone=True), again=True
        )
        if self._listener is not None:
            self._listener.tell(self.space_name)
        return answers

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """See ``LeasedEnqueue.enqueue_leased``. Leases large batches of jobs that are alike.

        If its answer is lost and it is repeated, all of them exist: the leases it may have given expire.
        """
        self.validation.check_enqueue(jobs)
        self.validation.check_lease(lease_for, worker)
        given = self.validation.caller_now(now)
        self._connections.check_open()
        if not jobs:
            return [], []
        answers, found = self._connections.call(
            lambda connection: enqueue_leased_on(self, connection, jobs, given, lease_for=lease_for, worker=worker),
            again=True,
        )
        if self._listener is not None and not found:
            self._listener.tell(self.space_name)
        return answers, found

    def reserve(
        self,
        queues: Sequence[str],
        *,
        limit: int,
        lease_for: int,
        worker: str = "",
        types: Collection[str] | None = None,
        now: int | None = None,
    ) -> list[Reservation]:
        """See ``Driver.reserve``. Not repeated when its answer is lost: the leases it may have given expire."""
        asked = self.validation.check_reserve(queues, limit, lease_for, worker, types)
        wanted = None if types is None else names(sorted(set(types)))
        arguments = (
            names(asked),
            wanted,
            limit,
            lease_for,
            worker,
            token_bytes(limit),
            self.validation.caller_now(now),
        )
        found = [reservation(row) for row in self._function("reserve_1", self.space_name, *arguments, again=False)]
        if found:
            self._blocked.times = 0
        return found

    def extend(
        self,
        leases: Sequence[Lease],
        *,
        lease_for: int,
        notes: Mapping[str, Note] | None = None,
        now: int | None = None,
    ) -> list[Lease | LeaseError]:
        """See ``Driver.extend``."""
        self.validation.check_extend(leases, lease_for)
        given = self.validation.caller_now(now)
        left = [(notes or {}).get(lease.job_id) or _NOTHING for lease in leases]
        found = self._function(
            "extend_1",
            self.space_name,
            given,
            lease_for,
            names([batch.storable(lease.job_id) for lease in leases]),
            names([batch.storable(lease.token) for lease in leases]),
            bigints([note.started_at for note in left]),
            blobs([note.progress for note in left]),
            blobs([note.checkpoint for note in left]),
        )
        return [_extended(lease, row) for lease, row in zip(leases, found, strict=True)]

    def settle(self, settlements: Sequence[Settlement], *, now: int | None = None) -> list[LeaseError | None]:
        """See ``Driver.settle``. A batch of plain acks has a function of its own: it needs no decisions."""
        self.validation.check_settle(settlements)
        given = self.validation.caller_now(now)
        answers: list[LeaseError | None] = [None] * len(settlements)
        if not settlements:
            self._connections.check_open()
            return answers
        if batch.are_plain_acks(settlements):
            refused = self._function("ack_2", self.space_name, given, *batch.acks(settlements))
        else:
            refused = self._function("settle_1", self.space_name, given, *batch.endings(settlements))
        for row in refused:
            answers[row[0] - 1] = _refusal(settlements[row[0] - 1].lease.job_id, row)
        return answers

    def reap(
        self,
        queues: Sequence[str] | None = None,
        *,
        worker: str | None = None,
        limit: int = REAP_LIMIT,
        now: int | None = None,
    ) -> int:
        """See ``Driver.reap``."""
        asked = self.validation.check_reap(queues, worker, limit)
        arguments = (None if asked is None else names(asked), worker, limit, self.validation.caller_now(now))
        [(ended,)] = self._function("reap_1", self.space_name, *arguments)
        return int(ended)

    def wait(self, queues: Sequence[str], *, timeout: float) -> None:
        """See ``Driver.wait``: looks now and then, more rarely as time passes; a listener's hint is quicker.

        Returns when a job is due, when a scheduled one comes due, and when a lease may have expired. A job that is due
        and yet not given out (its queue is paused or full, or this worker does not know its type) is told of at once
        only the first time.
        """
        asked = {"space": self.space_name, "queues": self.validation.check_wait(queues, timeout), "now": None}
        self._connections.check_open()
        deadline, pause = monotonic() + timeout, LOOK_FIRST
        if self._listener is not None and timeout > 0:
            self._listener.start()
        while (left := deadline - monotonic()) > 0:
            heard = 0 if self._listener is None else self._listener.count(self.space_name)
            [(coming,)] = self._query("next_due", asked)
            if coming is not None and coming <= 0:
                times = getattr(self._blocked, "times", 0)
                self._blocked.times = times + 1
                if times:
                    self._sleep(heard, min(left, LOOK_FIRST * 2 ** min(times, 10), LOOK_AT_LEAST_EVERY))
                return
            due = left if coming is None else coming / SECOND
            self._sleep(heard, min(left, due, pause))
            if self._listener is not None and self._listener.count(self.space_name) != heard:
                return  # a reserve that finds nothing costs no more than another look
            rarest = LOOK_RARELY if self._listener is not None and self._listener.is_alive else LOOK_AT_LEAST_EVERY
            pause = min(2 * pause, rarest)

    def _sleep(self, heard: int, seconds: float) -> None:
        """Until something is heard, for a while at the most; not through a close."""
        if self._listener is None:
            self._connections.pause(seconds)
        else:
            self._listener.wait(self.space_name, heard, seconds)
        self._connections.check_open()

    def space(self, name: str) -> PostgresDriver:
        """See ``Driver.space``."""
        return PostgresDriver(
            self._connections,
            self._statements,
            self._listener,
            durability=self._durability,
            caller_clock=self.caller_clock,
            space=bounds.check_name("space", name),
        )

    def joined(self, connection: object) -> JoinedPostgres:
        """See ``Driver.joined``: the connection is a ``psycopg.Connection`` to the same database."""
        return JoinedPostgres(self, connection)

    def close(self) -> None:
        """See ``Driver.close``."""
        self._connections.close()
        if self._listener is not None:
            self._listener.stop()


_NOTHING = Note()


def _extended(lease: Lease, row: Row) -> Lease | LeaseError:
    _, code, state, expires_at, cancel_requested, now = row
    if code != "ok":
        return _refusal(lease.job_id, (0, code, state, expires_at, now, None, None))
    return Lease(
        job_id=lease.job_id,
        token=lease.token,
        fence=lease.fence,
        expires_at=expires_at,
        cancel_requested=cancel_requested,
    )


def _refusal(job_id: str, row: Row) -> LeaseError:
    _, code, state, expires_at, now, kind, key = row
    match code:
        case "mismatch":
            return LeaseMismatch(job_id)
        case "expired":
            return LeaseExpired(job_id, expires_at=expires_at, now=now)
        case "write refused":
            return WriteRefused(job_id, kind=kind, key=key)
        case _:
            return JobNotInflight(job_id, state)


def open_url(url: SplitResult, *, space: str, caller_clock: bool, clock: Clock | None) -> PostgresDriver:  # noqa: ARG001 - the server's clock judges
    """``postgresql://user@host/database``, with libpq's options and ours; makes or upgrades the tables."""
    options = read(url)
    bounds.check_name("space", space)
    connections = Connections(options.conninfo, size=options.connections, patience=options.patience)
    try:
        with connections.open() as connection:
            durability = _durability(connection)
            migrations.migrate(connection, options.schema)
    except psycopg.Error as error:
        raise translated(error) from error
    listener = None if options.listen == OFF else Listener(connections, options.listen, options.schema)
    return PostgresDriver(
        connections,
        Statements(options.schema),
        listener,
        durability=durability,
        caller_clock=caller_clock,
        space=space,
    )


def _durability(connection: Connection) -> Durability:
    """What this server's settings promise; refuses servers on which the functions would not mean what they say."""
    if connection.info.server_version < OLDEST_SERVER:
        raise StoreUnavailable(f"wanted PostgreSQL 14 or newer, got {connection.info.server_version // 10_000}")
    row = connection.execute(
        "SELECT current_setting('fsync'), current_setting('synchronous_commit'), "
        "current_setting('default_transaction_isolation')"
    ).fetchone()
    assert row is not None
    fsync, synchronous, isolation = row
    if isolation != "read committed":
        raise StoreUnavailable(
            f"wanted default_transaction_isolation = read committed for this database and role, got {isolation}: every "
            "statement of a verb must see what was committed before it"
        )
    return Durability.FSYNC if fsync == "on" and synchronous != "off" else Durability.PROCESS
