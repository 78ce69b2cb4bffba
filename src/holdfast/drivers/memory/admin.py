"""The tools and the registry of the memory driver."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from holdfast.clock import DAY
from holdfast.drivers.contract import Inspection, JobFilter, Page, QueueCounts, Trimmed
from holdfast.drivers.memory.space import Row, Space
from holdfast.drivers.validation import Validation, ledger_position
from holdfast.errors import LedgerTrimmed
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import is_expired
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change, Entry

A = TypeVar("A")


class MemoryAdmin:
    """Everything that is not a verb of a producer or a worker."""

    _validation: Validation
    _changed: threading.Condition
    _open: Callable[[], Space]
    _wake: Callable[[], None]

    # Looking ----------------------------------------------------------------------------------------------------

    def get(self, job_id: str) -> JobRecord | None:
        """See ``Admin.get``."""
        bounds.check_name("id", job_id)
        with self._changed:
            row = self._open().rows.get(job_id)
            return None if row is None else row.job

    def inspect(self, job_id: str) -> Inspection | None:
        """See ``Admin.inspect``."""
        bounds.check_name("id", job_id)
        with self._changed:
            row = self._open().rows.get(job_id)
            if row is None:
                return None
            return Inspection(
                job=row.job,
                available_at=row.available_at,
                worker=row.worker,
                fence=row.fence,
                reserved_at=row.reserved_at,
                expires_at=row.expires_at,
                ended_at=row.ended_at,
                cancel_requested=row.cancel_requested,
                note=None if row.note is None else replace(row.note, started_at=row.started_at),
            )

    def find(self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None) -> Page[JobRecord]:
        """See ``Admin.find``."""
        self._validation.check_find(limit, after)
        asked = where or JobFilter()
        with self._changed:
            jobs = (row.job for row in self._open().rows.values())
            found = sorted(
                (job for job in jobs if _fits(job, asked) and (after is None or job.id > after)),
                key=lambda job: job.id,
            )
        page = found[:limit]
        return Page(page, page[-1].id if len(found) > limit else None)

    def any_open(self, queues: Sequence[str], types: Collection[str]) -> bool:
        """See ``Admin.any_open``."""
        in_queues, of_types = self._validation.check_any_open(queues, types)
        with self._changed:
            jobs = (row.job for row in self._open().rows.values())
            return any(not job.state.has_ended and job.queue in in_queues and job.type in of_types for job in jobs)

    def counts(self, queues: Sequence[str] | None = None, *, now: int | None = None) -> list[QueueCounts]:
        """See ``Admin.counts``."""
        self._validation.check_counts(queues)
        with self._changed:
            space, at = self._open(), self._validation.now(now)
            counted: dict[tuple[str, str], dict[str, int]] = {}
            for row in space.rows.values():
                job = row.job
                if queues is None or job.queue in queues:
                    scheduled = job.state is State.READY and row.available_at > at
                    tally = counted.setdefault((job.queue, job.type), {})
                    word = "scheduled" if scheduled else job.state.value
                    tally[word] = tally.get(word, 0) + 1
        return [QueueCounts(queue=queue, type=type_, **tally) for (queue, type_), tally in sorted(counted.items())]

    # Acting -----------------------------------------------------------------------------------------------------

    def requeue(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """See ``Admin.requeue``."""

        def again(space: Space, row: Row, at: int) -> bool:
            if row.job.state not in (State.DEAD, State.CANCELLED):
                return False
            space.requeue(row, at)
            return True

        return [bool(answer) for answer in self._each(job_ids, again, now)]

    def cancel(self, job_ids: Sequence[str], *, now: int | None = None) -> list[State | None]:
        """See ``Admin.cancel``."""

        def stop(space: Space, row: Row, at: int) -> State:
            if row.job.state is State.READY:
                space.cancel(row, at)
            elif row.job.state is State.INFLIGHT:
                row.cancel_requested = True
            return row.job.state

        return self._each(job_ids, stop, now)

    def purge(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """See ``Admin.purge``."""

        def forget(space: Space, row: Row, at: int) -> bool:
            if not row.job.state.has_ended:
                return False
            space.purge(row, at)
            return True

        return [bool(answer) for answer in self._each(job_ids, forget, now)]

    def _each(self, job_ids: Sequence[str], act: Callable[[Space, Row, int], A], now: int | None) -> list[A | None]:
        """Act on each known job, in order; None for the unknown ones."""
        self._validation.check_ids(job_ids)
        with self._changed:
            space, at = self._open(), self._validation.now(now)
            answers = [None if (row := space.rows.get(job_id)) is None else act(space, row, at) for job_id in job_ids]
            self._wake()
            return answers

    def configure(self, queue: str, settings: QueueSettings, *, type: str | None = None) -> None:
        """See ``Admin.configure``."""
        self._validation.check_settings(queue, settings, type)
        with self._changed:
            self._open().settings[queue, type] = settings
            self._wake()

    def settings(self, queue: str, *, type: str | None = None) -> QueueSettings:
        """See ``Admin.settings``."""
        self._validation.check_settings(queue, None, type)
        with self._changed:
            return self._open().settings.get((queue, type), QueueSettings())

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """See ``Admin.ledger``. A cursor counts the rows before it, from the first ever written."""
        self._validation.check_page(limit)
        with self._changed:
            space = self._open()
            written = space.ledger_trimmed + len(space.ledger)
            position = space.ledger_trimmed if after is None else ledger_position(after, written)
            if position < space.ledger_trimmed:
                raise LedgerTrimmed(str(after))
            start = position - space.ledger_trimmed
            rows = space.ledger[start : start + limit]
            return Page(rows, str(position + len(rows)))

    def ledger_end(self) -> str:
        """See ``Admin.ledger_end``."""
        with self._changed:
            space = self._open()
            return str(space.ledger_trimmed + len(space.ledger))

    def trim(
        self,
        *,
        ended_for: int = 7 * DAY,
        ledger_for: int = 30 * DAY,
        limit: int = bounds.MAX_BATCH_ITEMS,
        now: int | None = None,
    ) -> Trimmed:
        """See ``Admin.trim``."""
        self._validation.check_trim(ended_for, ledger_for, limit)
        ended_for, ledger_for = self._validation.retention(self, ended_for=ended_for, ledger_for=ledger_for, now=now)
        with self._changed:
            space, at = self._open(), self._validation.now(now)
            jobs = [row for row in space.rows.values() if _forgettable(row, at - ended_for)][:limit]
            for row in jobs:
                del space.rows[row.job.id]
            ledger = 0
            while ledger < min(limit, len(space.ledger)) and space.ledger[ledger].ended_at <= at - ledger_for:
                ledger += 1
            del space.ledger[:ledger]
            space.ledger_trimmed += ledger
            keys = [
                key
                for key, mapped in space.dedupe.items()
                if is_expired(mapped.until, at) and mapped.job_id not in space.rows
            ][:limit]
            for key in keys:
                del space.dedupe[key]
            entries = [place for place, entry in space.registry.items() if _gone(entry, at)][:limit]
            for place in entries:
                del space.registry[place]
            found = (len(jobs), ledger, len(keys), len(entries))
            return Trimmed(jobs=len(jobs), ledger=ledger, dedupe=len(keys), registry=len(entries), more=limit in found)

    # Registry ---------------------------------------------------------------------------------------------------

    def read(self, kind: str, keys: Sequence[str], *, now: int | None = None) -> list[Entry | None]:
        """See ``Registry.read``."""
        self._validation.check_read(kind, keys)
        with self._changed:
            space, at = self._open(), self._validation.now(now)
            return [self._entry(space, kind, key, at) for key in keys]

    def write(self, changes: Sequence[Change], *, now: int | None = None) -> list[Entry | None]:
        """See ``Registry.write``."""
        self._validation.check_write(changes)
        with self._changed:
            space, at = self._open(), self._validation.now(now)
            return [
                self._change(space, change, at) if self._conflict(space, (change,), at) is None else None
                for change in changes
            ]

    def scan(
        self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100, now: int | None = None
    ) -> list[Entry]:
        """See ``Registry.scan``."""
        self._validation.check_scan(kind, prefix, after, limit)
        with self._changed:
            space, at = self._open(), self._validation.now(now)
            keys = sorted(key for of, key in space.registry if of == kind and key.startswith(prefix) and key > after)
            entries = (self._entry(space, kind, key, at) for key in keys)
            return [entry for entry in entries if entry is not None][:limit]

    @staticmethod
    def _entry(space: Space, kind: str, key: str, now: int) -> Entry | None:
        entry = space.registry.get((kind, key))
        return None if entry is None or _gone(entry, now) else entry

    def _conflict(self, space: Space, changes: Sequence[Change], now: int) -> Change | None:
        """The first change whose expected version is not the current one."""
        for change in changes:
            entry = self._entry(space, change.kind, change.key, now)
            if change.version is not None and change.version != (0 if entry is None else entry.version):
                return change
        return None

    @staticmethod
    def _change(space: Space, change: Change, now: int) -> Entry:
        """Make a change that has no conflict."""
        if change.value is None:
            space.registry.pop((change.kind, change.key), None)
            return Entry(key=change.key, value=None, version=0)
        entry = Entry(
            key=change.key,
            value=change.value,
            version=space.next_numbers(1),
            expires_at=None if change.ttl is None else now + change.ttl,
        )
        space.registry[change.kind, change.key] = entry
        return entry


def _gone(entry: Entry, now: int) -> bool:
    return entry.expires_at is not None and is_expired(entry.expires_at, now)


def _forgettable(row: Row, before: int) -> bool:
    """Ended long enough ago, and no dead letter: those only ``purge`` removes."""
    return row.ended_at is not None and row.ended_at <= before and row.job.state in (State.DONE, State.CANCELLED)


def _fits(job: JobRecord, where: JobFilter) -> bool:
    exact = (
        (where.queue, job.queue),
        (where.type, job.type),
        (where.domain, job.domain),
        (where.name, job.name),
        (where.idempotency_key, job.idempotency_key),
        (where.reason, job.dead_reason),
    )
    return (
        all(wanted is None or wanted == got for wanted, got in exact)
        and (where.states is None or job.state in where.states)
        and (where.created_from is None or job.created_at >= where.created_from)
        and (where.created_before is None or job.created_at < where.created_before)
    )
