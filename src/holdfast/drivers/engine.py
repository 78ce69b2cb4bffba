"""What a driver author writes: an ``Engine`` has one method per request, with one argument, behind one door.

A ``Door`` is all that a ``Store`` needs. What sends requests elsewhere, or stands in front of an engine, is a door too.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar, TypeVar, cast

from holdfast.drivers.answers import (
    Diagnosis,
    Inspection,
    JobColumns,
    LedgerTuples,
    Reaped,
    Reserved,
    Stored,
    to_columns,
)
from holdfast.drivers.capabilities import Capabilities, Feature
from holdfast.drivers.requests import (
    Diagnose,
    Enqueue,
    Extend,
    Find,
    Inspect,
    Ledger,
    LedgerMarks,
    Read,
    ReadColumns,
    ReadTuples,
    Reap,
    Request,
    Reserve,
    Scan,
    Settle,
    Trim,
    Wait,
    WaitForCancel,
)
from holdfast.errors import LeaseError
from holdfast.model import ledger_reader, retention
from holdfast.model.columns import LEDGER_COLUMNS, names_of
from holdfast.model.lease import Lease
from holdfast.model.retention import Retention

A = TypeVar("A")

LEDGER_FIELDS = names_of(LEDGER_COLUMNS)


class Door(ABC):
    """One space of one store, and the one way in: a request. It is safe to share between threads.

    ``Store`` stands in front of it, checks each request, and refuses what ``can`` lacks.
    """

    has_serial_arrivals: bool = False  # of two calls of enqueue, one commits before the other reads the clock
    has_numbered_ledger: bool = False  # the cursor of a ledger row is its number, counted from 1 in the space

    can: Capabilities
    space_name: str
    caller_clock: bool

    @abstractmethod
    def execute(self, request: Request[A]) -> A:
        """Carry out a request, which has been checked."""

    @abstractmethod
    def open_space(self, name: str) -> Door:
        """Return another space of the same store, on the same connections. Spaces share no job, key or counter."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections, also those of the spaces. Later requests raise ``StoreClosed``."""


class Engine(Door):
    """A door with a method for each request of the groups that ``can`` declares."""

    POLL_SECONDS: ClassVar[float] = 0.05  # between two looks of a store that cannot wake its waiters

    def execute(self, request: Request[A]) -> A:
        """Carry out a request: call the method of its verb."""
        return cast("A", getattr(self, request.verb)(request))

    # The core, which every engine has.

    @abstractmethod
    def enqueue(self, request: Enqueue) -> Stored:
        """Store jobs."""

    @abstractmethod
    def reserve(self, request: Reserve) -> Reserved:
        """Lease jobs."""

    @abstractmethod
    def extend(self, request: Extend) -> list[Lease | LeaseError]:
        """Extend leases."""

    @abstractmethod
    def settle(self, request: Settle) -> list[LeaseError | None]:
        """End leases."""

    @abstractmethod
    def reap(self, request: Reap) -> Reaped:
        """End leases that have expired."""

    @abstractmethod
    def inspect(self, request: Inspect) -> dict[str, Inspection]:
        """Return jobs by their ids."""

    # Hooks with a default, for engines that can do better.

    def wait(self, request: Wait) -> None:
        """Sleep for a moment: the next reserve decides."""
        time.sleep(min(request.timeout, self.POLL_SECONDS))

    def wait_for_cancel(self, request: WaitForCancel) -> bool:
        """Look for a cancel request, and look again after the timeout."""
        without_payloads = Inspect(job_ids=list(request.job_ids), payloads=False)
        if any(found.cancel_requested for found in self.inspect(without_payloads).values()):
            return True
        time.sleep(request.timeout)
        return any(found.cancel_requested for found in self.inspect(without_payloads).values())

    def read_columns(self, request: ReadColumns) -> JobColumns:
        """Turn a page of records into columns."""
        page = self.execute(Find(where=request.where, limit=request.limit, after=request.after))
        return to_columns(page, request.names)

    def read_tuples(self, request: ReadTuples) -> LedgerTuples:
        """Turn a page of rows into tuples."""
        page = self.execute(Ledger(after=request.after, limit=request.limit))
        tuples = [tuple(getattr(row, name) for name in LEDGER_FIELDS) for row in page]
        return LedgerTuples(tuples, cast("str", page.cursor))

    def ledger_marks(self, request: LedgerMarks) -> list[tuple[str, int]]:
        """Read the rows to find the cursors between them."""
        marks: list[tuple[str, int]] = []
        cursor, left = request.after, request.most
        while left > 0:
            page = self.execute(Ledger(after=cursor, limit=min(request.every, left)))
            if not page.items:
                break
            cursor, left = cast("str", page.cursor), left - len(page)
            marks.append((cursor, len(page)))
        return marks

    def diagnose(self, request: Diagnose) -> Diagnosis:  # noqa: ARG002 - a hook
        """Know nothing."""
        return Diagnosis()

    # What several engines need to carry out a request. It is here and not in the store in front of them: an engine that
    # sends its requests to a service sends them as the caller made them.

    def retention_of(self, request: Trim) -> Retention:
        """Return how long rows stay: as the call says, else as the space says."""
        if not self.can.has(Feature.REGISTRY):
            return Retention(**request.given)
        [stored] = self.execute(Read(kind=retention.KIND, keys=[retention.KEY], now=request.now))
        return replace(retention.read_retention(stored) or Retention(), **request.given)

    def reader_cursors(self, now: int | None) -> list[str | None]:
        """Return how far the registered readers of the ledger have read.

        Called before the transaction that removes rows. A reader that registers in between begins at the oldest row
        that is left (L13).
        """
        if not self.can.has(Feature.REGISTRY):
            return []
        readers = self.execute(Scan(kind=ledger_reader.KIND, limit=ledger_reader.MAX_READERS, now=now))
        return [ledger_reader.parse_reader(reader).cursor for reader in readers]
