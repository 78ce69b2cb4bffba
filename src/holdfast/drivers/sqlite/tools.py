"""The surface for people and tools: checks at the door, then one call each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from holdfast.clock import DAY
from holdfast.drivers.contract import Inspection, JobFilter, Page, QueueCounts, Trimmed
from holdfast.drivers.sqlite import admin, registry, rows
from holdfast.drivers.sqlite.store import SqliteStore
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change, Entry


class SqliteTools(SqliteStore):
    """``Admin`` and ``Registry``; reads never wait for a writer."""

    def get(self, job_id: str) -> JobRecord | None:
        """See ``Admin.get``."""
        bounds.name("id", job_id)
        return self._read(lambda call: admin.get(call, job_id))

    def inspect(self, job_id: str) -> Inspection | None:
        """See ``Admin.inspect``."""
        bounds.name("id", job_id)
        return self._read(lambda call: admin.inspect(call, job_id))

    def find(self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None) -> Page[JobRecord]:
        """See ``Admin.find``."""
        self.check_find(limit, after)
        return self._read(lambda call: admin.find(call, where or JobFilter(), limit=limit, after=after))

    def any_open(self, queues: Sequence[str], types: Collection[str]) -> bool:
        """See ``Admin.any_open``."""
        in_queues, of_types = self.check_any_open(queues, types)
        asked = {"space": self._space, "queues": rows.as_json(in_queues), "types": rows.as_json(of_types)}
        return bool(self._read(lambda call: call.run("any_open", asked).fetchone()[0]))

    def counts(self, queues: Sequence[str] | None = None, *, now: int | None = None) -> list[QueueCounts]:
        """See ``Admin.counts``."""
        self.check_counts(queues)
        return self._read(lambda call: admin.counts(call, queues), now)

    def requeue(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """See ``Admin.requeue``."""
        self.check_ids(job_ids)
        return self._write(lambda call: admin.requeue(call, job_ids), now)

    def cancel(self, job_ids: Sequence[str], *, now: int | None = None) -> list[State | None]:
        """See ``Admin.cancel``."""
        self.check_ids(job_ids)
        return self._write(lambda call: admin.cancel(call, job_ids), now)

    def purge(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """See ``Admin.purge``."""
        self.check_ids(job_ids)
        return self._write(lambda call: admin.purge(call, job_ids), now)

    def configure(self, queue: str, settings: QueueSettings, *, type: str | None = None) -> None:
        """See ``Admin.configure``."""
        self.check_settings(queue, settings, type)
        row = (
            self._space,
            queue,
            type or "",
            settings.paused_until,
            settings.max_inflight,
            settings.rate,
            settings.burst,
            settings.on_exhausted,
            settings.dedupe_window,
        )
        self._write(lambda call: call.run("configure", row))

    def settings(self, queue: str, *, type: str | None = None) -> QueueSettings:
        """See ``Admin.settings``."""
        self.check_settings(queue, None, type)
        row = self._read(lambda call: call.run("settings", (self._space, queue, type or "")).fetchone())
        return QueueSettings() if row is None else rows.settings(row)

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """See ``Admin.ledger``."""
        self.check_page(limit)
        return self._read(lambda call: admin.ledger(call, after, limit))

    def ledger_tuples(self, after: str | None, limit: int) -> tuple[Sequence[Sequence[Any]], str]:
        """See ``LedgerScan.ledger_tuples``."""
        self.check_page(limit)
        return self._read(lambda call: admin.ledger_tuples(call, after, limit))

    def ledger_marks(self, after: str | None, *, every: int, most: int) -> list[tuple[str, int]]:
        """See ``LedgerScan.ledger_marks``."""
        self.check_page(every)
        return self._read(lambda call: admin.ledger_marks(call, after, every, most))

    def ledger_end(self) -> str:
        """See ``Admin.ledger_end``."""
        return self._read(lambda call: str(call.ledger_end()))

    def trim(
        self,
        *,
        ended_for: int = 7 * DAY,
        ledger_for: int = 30 * DAY,
        limit: int = bounds.MAX_BATCH,
        now: int | None = None,
    ) -> Trimmed:
        """See ``Admin.trim``."""
        self.check_trim(ended_for, ledger_for, limit)
        ended_for, ledger_for = self.kept_for(ended_for, ledger_for, now)
        return self._write(lambda call: admin.trim(call, ended_for=ended_for, ledger_for=ledger_for, limit=limit), now)

    def read(self, kind: str, keys: Sequence[str], *, now: int | None = None) -> list[Entry | None]:
        """See ``Registry.read``."""
        self.check_read(kind, keys)
        return self._read(lambda call: [registry.current(call, kind, key) for key in keys], now)

    def write(self, changes: Sequence[Change], *, now: int | None = None) -> list[Entry | None]:
        """See ``Registry.write``."""
        self.check_write(changes)
        return self._write(lambda call: registry.write(call, changes), now)

    def scan(
        self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100, now: int | None = None
    ) -> list[Entry]:
        """See ``Registry.scan``."""
        self.check_scan(kind, prefix, after, limit)
        return self._read(lambda call: registry.scan(call, kind, prefix, after, limit), now)
