"""The verbs of the SQLite driver: each checks at the door, then runs as one call inside a shared commit."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote

from holdfast.clock import SECOND, Clock, SystemClock, monotonic
from holdfast.drivers.contract import REAP_LIMIT, Capabilities, Durability, Feature
from holdfast.drivers.sqlite.database import Database, Options
from holdfast.drivers.sqlite.enqueue import enqueue, enqueue_leased
from holdfast.drivers.sqlite.joined import JoinedSqlite
from holdfast.drivers.sqlite.reserve import next_due, reserve
from holdfast.drivers.sqlite.settle import extend, reap, settle
from holdfast.drivers.sqlite.tools import SqliteTools
from holdfast.drivers.url_options import options
from holdfast.errors import ConnectError, InvalidInput, LeaseError
from holdfast.model import bounds
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.settlement import Settlement


class SqliteDriver(SqliteTools):
    """The embedded default: durable, in one file, for many threads and processes of one machine."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock | None = None,
        caller_clock: bool = False,
        space: str = "main",
    ) -> None:
        super().__init__(
            database,
            clock=clock or SystemClock(),
            caller_clock=caller_clock,
            space=bounds.name("space", space),
        )
        self._seen = threading.local()  # the version of the file that this thread's last reserve saw
        self.capabilities = Capabilities(
            driver="sqlite",
            durability=Durability.FSYNC if database.options.synchronous == "FULL" else Durability.PROCESS,
            gaps={
                Feature.OFFSETS: "domains run in order of arrival",
                Feature.HALT: "a domain goes on when its head fails for good",
                Feature.MACHINES: "the file is on one machine",
            },
        )

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int | None = None) -> list[Enqueued]:
        """See ``Driver.enqueue``."""
        self.check_enqueue(jobs)
        self.check_room()
        return self._write(lambda call: enqueue(call, jobs), now)

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """See ``LeasedEnqueue.enqueue_leased``."""
        self.check_enqueue(jobs)
        self.check_lease(lease_for, worker)
        self.check_room()
        return self._write(lambda call: enqueue_leased(call, jobs, lease_for=lease_for, worker=worker), now)

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
        """See ``Driver.reserve``."""
        names = self.check_reserve(queues, limit, lease_for, worker, types)
        if hasattr(self._seen, "version"):
            self._seen.version = self._database.version()
        return self._write(
            lambda call: reserve(call, names, limit=limit, lease_for=lease_for, worker=worker, types=types), now
        )

    def extend(
        self,
        leases: Sequence[Lease],
        *,
        lease_for: int,
        notes: Mapping[str, Note] | None = None,
        now: int | None = None,
    ) -> list[Lease | LeaseError]:
        """See ``Driver.extend``."""
        self.check_extend(leases, lease_for)
        return self._write(lambda call: extend(call, leases, lease_for=lease_for, notes=notes), now)

    def settle(self, settlements: Sequence[Settlement], *, now: int | None = None) -> list[LeaseError | None]:
        """See ``Driver.settle``."""
        self.check_settle(settlements)
        return self._write(lambda call: settle(call, settlements), now)

    def reap(
        self,
        queues: Sequence[str] | None = None,
        *,
        worker: str | None = None,
        limit: int = REAP_LIMIT,
        now: int | None = None,
    ) -> int:
        """See ``Driver.reap``."""
        names = self.check_reap(queues, worker, limit)
        return self._write(lambda call: reap(call, names, worker=worker, limit=limit), now)

    def wait(self, queues: Sequence[str], *, timeout: float) -> None:
        """See ``Driver.wait``: woken by commits of any process, see ``ear.py``.

        Returns when a commit since this thread's last reserve has left a due job, when a scheduled one comes due, and
        when a lease expires.
        """
        names = self.check_wait(queues, timeout)
        self._database.check_open()
        deadline = monotonic() + timeout
        due_at = deadline
        while (left := min(deadline, due_at) - monotonic()) > 0:
            version = self._database.version()
            if version != getattr(self._seen, "version", None):
                self._seen.version = version
                coming = self._read(lambda call: next_due(call, names))
                if coming is not None and coming <= 0:
                    return
                due_at = deadline if coming is None else monotonic() + coming / SECOND
            else:
                self._database.wait_for_commit(left)

    def space(self, name: str) -> SqliteDriver:
        """See ``Driver.space``."""
        return SqliteDriver(
            self._database, clock=self._clock, caller_clock=self.caller_clock, space=bounds.name("space", name)
        )

    def joined(self, connection: object) -> JoinedSqlite:
        """See ``Driver.joined``: the connection is a ``sqlite3.Connection`` to the same file."""
        return JoinedSqlite(self, connection)

    def close(self) -> None:
        """See ``Driver.close``."""
        self._database.close()


def _synchronous(value: str) -> str:
    if value.upper() not in {"FULL", "NORMAL"}:
        raise InvalidInput("synchronous", wanted="FULL (the default) or NORMAL", got=value)
    return value.upper()


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise InvalidInput("busy_for", wanted="seconds from 0 to 86400", got=value)
    return seconds


def _bytes(value: str) -> int:
    if not (value.isascii() and value.isdecimal()):
        raise InvalidInput("min_free_bytes", wanted="a whole number of bytes", got=value)
    return int(value)


def open_url(url: SplitResult, *, space: str, caller_clock: bool, clock: Clock | None) -> SqliteDriver:
    """``sqlite:///jobs.db`` is relative to the working directory, ``sqlite:////var/lib/jobs.db`` is absolute."""
    if url.netloc or len(url.path) <= 1 or url.path.startswith("/:memory:"):
        shown = "a host" if url.netloc else url.path or "no path"
        raise ConnectError(
            f"wanted sqlite:///relative.db or sqlite:////absolute.db, got {shown} (for a store in memory: memory://)"
        )
    known = {"synchronous": _synchronous, "busy_for": _seconds, "min_free_bytes": _bytes}
    given: dict[str, Any] = options(url, known)
    database = Database(Path(unquote(url.path[1:])).absolute(), Options(**given))
    return SqliteDriver(database, clock=clock, caller_clock=caller_clock, space=space)
