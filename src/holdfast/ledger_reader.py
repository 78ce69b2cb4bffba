"""``LedgerReader``: read the ledger as an outbox, from a cursor that the store keeps."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Inspect, LedgerEnd, Read, Write
from holdfast.drivers.store import Store
from holdfast.errors import LedgerTrimmed
from holdfast.model import bounds
from holdfast.model.job import JobRecord
from holdfast.model.ledger import LedgerRow
from holdfast.model.ledger_reader import KIND, Reader, forget_reader, parse_reader, register_reader
from holdfast.model.registry import Change


class LedgerReader:
    """Reads every row of the ledger once, in order, also after a crash. ``trim`` and ``purge`` wait for it.

    Processes that use the same name share one cursor. Each ``read`` begins at the stored cursor. ``advance`` stores a
    new one only if no other process has changed it since this reader's last ``read``; so of two processes that have
    read the same rows, one is refused.

    Used by one thread. Raises ``Unsupported`` if the driver has no ledger or no registry.
    """

    def __init__(self, store: Store, name: str, *, begin_at_end: bool = False) -> None:
        """Store nothing yet: the first ``read`` registers a new reader, at the oldest row or ``begin_at_end``."""
        store.capabilities.require(Feature.LEDGER)
        store.capabilities.require(Feature.REGISTRY)
        self.name = bounds.check_text("name", name)
        self._store = store
        self._begin_at_end = begin_at_end
        self._version: int | None = None

    def read(self, limit: int = 1000) -> list[tuple[str, LedgerRow]]:
        """Return the next rows, each with the cursor that leads to the row after it. Registers the reader if needed.

        Returns the same rows again until ``advance`` is called. A reader that was removed begins as a new one.
        """
        while True:
            cursor = self._load().cursor
            try:
                page = self._store.ledger(cursor, limit)
            except LedgerTrimmed:
                # Another process may have stored a later cursor meanwhile: then the rows that it has read may be gone.
                if self._load().cursor == cursor:
                    raise
            else:
                return list(zip(page.cursors, page.items, strict=True))

    def advance(self, cursor: str) -> bool:
        """Store that every row up to ``cursor`` was read; False if another process has changed the cursor."""
        [entry] = self._store.do(Write(changes=[self.advance_with(cursor)]))
        self._version = None if entry is None else entry.version
        return entry is not None

    def advance_with(self, cursor: str) -> Change:
        """Return ``advance`` as a registry write for ``enqueue(..., writes=[...])`` or ``Ack.writes``.

        If another process has changed the cursor, the call that makes the write is refused with ``WriteRefused``. Call
        ``read`` after a call with it.
        """
        if self._version is None:
            self._load()
        return register_reader(self.name, cursor=cursor, version=self._version)

    def forget(self) -> None:
        """Remove the registration: ``trim`` and ``purge`` wait no longer. The next ``read`` is that of a new reader."""
        self._store.do(Write(changes=[forget_reader(self.name)]))
        self._version = None

    def _load(self) -> Reader:
        """Return the registration. Stores it if there is none."""
        while True:
            [entry] = self._store.do(Read(kind=KIND, keys=[self.name]))
            if entry is None:
                cursor = self._store.do(LedgerEnd()) if self._begin_at_end else None
                [entry] = self._store.do(Write(changes=[register_reader(self.name, cursor=cursor, version=0)]))
            if entry is not None:  # else another process has just registered the same reader
                reader = parse_reader(entry)
                self._version = reader.version
                return reader


def find_webhooks(store: Store, job_ids: Sequence[str]) -> dict[str, str]:
    """Return the webhooks of these jobs by job id; jobs without one, and jobs that were removed, are left out."""
    found = store.do(Inspect(job_ids=job_ids, payloads=False))
    return {job_id: one.job.webhook for job_id, one in found.items() if one.job.webhook is not None}


def read_jobs(store: Store, job_ids: Sequence[str]) -> dict[str, JobRecord]:
    """Return these jobs by id; jobs that were removed are left out."""
    return {job_id: found.job for job_id, found in store.do(Inspect(job_ids=job_ids)).items()}
