"""The surface for people and tools: checks at the door, then one statement each."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import NamedTuple

from holdfast.clock import DAY, monotonic
from holdfast.drivers.contract import Inspection, JobFilter, Page, QueueCounts, Trimmed
from holdfast.drivers.postgres import rows
from holdfast.drivers.postgres.arrays import bigints, blobs, names
from holdfast.drivers.postgres.batch import storable
from holdfast.drivers.postgres.rows import Row
from holdfast.drivers.postgres.store import PostgresStore
from holdfast.errors import InvalidInput, LedgerTrimmed
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Note
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change, Entry

LEDGER_PATIENCE = 2.0  # seconds that an empty page waits for transactions that began before rows it must not skip to
RECORD = 26  # columns of a job's record
LARGEST = 2**63 - 1


class VitalSigns(NamedTuple):
    """The hot tables, as the server's statistics have them."""

    live_rows: int
    dead_rows: int  # not yet removed by vacuum
    oldest_transaction: int | None  # how long it has been open, in microseconds: nothing younger can be removed


class PostgresTools(PostgresStore):
    """``Admin`` and ``Registry``."""

    def get(self, job_id: str) -> JobRecord | None:
        """See ``Admin.get``."""
        bounds.check_name("id", job_id)
        found = self._query("get", {"space": self.space_name, "id": job_id})
        return rows.record(found[0]) if found else None

    def inspect(self, job_id: str) -> Inspection | None:
        """See ``Admin.inspect``."""
        bounds.check_name("id", job_id)
        found = self._query("inspect", {"space": self.space_name, "id": job_id})
        if not found:
            return None
        [row] = found
        available_at, worker, fence, reserved_at, started_at, expires_at, ended_at, cancel, noted, progress, point = (
            row[RECORD:]
        )
        return Inspection(
            job=rows.record(row),
            available_at=available_at,
            worker=worker,
            fence=fence,
            reserved_at=reserved_at,
            expires_at=expires_at,
            ended_at=ended_at,
            cancel_requested=cancel,
            note=Note(started_at=started_at, progress=progress, checkpoint=point) if noted or started_at else None,
        )

    def find(self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None) -> Page[JobRecord]:
        """See ``Admin.find``."""
        found = self._page(self._statements.query("find"), self.asked_for(where or JobFilter(), limit, after))
        jobs = [rows.record(row) for row in found[:limit]]
        return Page(jobs, jobs[-1].id if len(found) > limit else None)

    def any_open(self, queues: Sequence[str], types: Collection[str]) -> bool:
        """See ``Admin.any_open``."""
        in_queues, of_types = self.validation.check_any_open(queues, types)
        asked = {"space": self.space_name, "queues": in_queues, "types": of_types}
        [(found,)] = self._page(self._statements.query("any_open"), asked)
        return bool(found)

    def asked_for(self, where: JobFilter, limit: int, after: str | None) -> dict[str, object]:
        """The parameters of ``find.sql``; it looks for one more, to see whether there is one."""
        self.validation.check_find(limit, after)
        states = set(State if where.states is None else where.states)
        return {
            **{key: _asked(value) for key, value in asdict(where).items()},
            "space": self.space_name,
            "after": after or "",
            "limit": limit + 1,
            "states": [str(state) for state in states],
            "hot": bool(states & {State.READY, State.INFLIGHT}),
            "done": State.DONE in states,
            "dead": State.DEAD in states,
            "cancelled": State.CANCELLED in states,
        }

    def counts(self, queues: Sequence[str] | None = None, *, now: int | None = None) -> list[QueueCounts]:
        """See ``Admin.counts``."""
        self.validation.check_counts(queues)
        asked = {
            "space": self.space_name,
            "queues": None if queues is None else list(queues),
            "now": self.validation.caller_now(now),
        }
        counted: dict[tuple[str, str], dict[str, int]] = {}
        for queue, type_, word, count in self._query("counts", asked):
            counted.setdefault((queue, type_), {})[word] = count
        return [QueueCounts(queue=queue, type=type_, **tally) for (queue, type_), tally in sorted(counted.items())]

    def requeue(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """See ``Admin.requeue``."""
        return self._act("requeue_1", job_ids, now)

    def purge(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """See ``Admin.purge``."""
        return self._act("purge_1", job_ids, now)

    def _act(self, function: str, job_ids: Sequence[str], now: int | None) -> list[bool]:
        """True where a job was acted on: for an id that was given twice, the first time only."""
        self.validation.check_ids(job_ids)
        once = list(dict.fromkeys(job_ids))
        [(done,)] = self._function(function, self.space_name, self.validation.caller_now(now), names(once), again=False)
        left = set(done)
        answers = []
        for job_id in job_ids:
            answers.append(job_id in left)
            left.discard(job_id)
        return answers

    def cancel(self, job_ids: Sequence[str], *, now: int | None = None) -> list[State | None]:
        """See ``Admin.cancel``."""
        self.validation.check_ids(job_ids)
        once = list(dict.fromkeys(job_ids))
        found: dict[str, str] = dict(
            self._function("cancel_1", self.space_name, self.validation.caller_now(now), names(once))
        )
        return [State(found[job_id]) if job_id in found else None for job_id in job_ids]

    def configure(self, queue: str, settings: QueueSettings, *, type: str | None = None) -> None:
        """See ``Admin.configure``."""
        self.validation.check_settings(queue, settings, type)
        self._query(
            "configure",
            {
                "space": self.space_name,
                "queue": queue,
                "type": type or "",
                **asdict(settings),
                "rate": None if settings.rate is None else float(settings.rate),
                "on_exhausted": str(settings.on_exhausted),
            },
        )

    def settings(self, queue: str, *, type: str | None = None) -> QueueSettings:
        """See ``Admin.settings``."""
        self.validation.check_settings(queue, None, type)
        found = self._query("settings", {"space": self.space_name, "queue": queue, "type": type or ""})
        return rows.settings(found[0]) if found else QueueSettings()

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """See ``Admin.ledger``. A cursor is the transaction and the number of the last row read.

        Rows stand in the order of their transactions, and are shown once every older one is over: so none can appear
        behind a reader. Where that leaves an empty page although rows are there, it is given a moment.
        """
        self.validation.check_page(limit)
        position = None if after is None else position_of(after)
        xid, seq = position or (None, None)
        deadline = monotonic() + LEDGER_PATIENCE
        while True:
            found = self._function("ledger_1", self.space_name, xid, seq, limit)
            trimmed_xid, trimmed_seq, next_xid, held_back = found[0][:4]
            if position is not None and position < (trimmed_xid, trimmed_seq):
                raise LedgerTrimmed(str(after))
            if position is not None and position[0] >= next_xid:
                raise strange(str(after))
            page = [row for row in found if row[4] is not None]
            if page or not held_back or monotonic() > deadline:
                break
            threading.Event().wait(0.005)
        last = page[-1][4:6] if page else position or (trimmed_xid, trimmed_seq)
        return Page([rows.ledger_row(row[6:]) for row in page], f"{last[0]}-{last[1]}")

    def ledger_end(self) -> str:
        """See ``Admin.ledger_end``. What older transactions hold back is given a moment, as in ``ledger``."""
        deadline = monotonic() + LEDGER_PATIENCE
        while True:
            [(xid, seq, held_back)] = self._function("ledger_end_1", self.space_name)
            if not held_back or monotonic() > deadline:
                return f"{xid}-{seq}"
            threading.Event().wait(0.005)

    def trim(
        self,
        *,
        ended_for: int = 7 * DAY,
        ledger_for: int = 30 * DAY,
        limit: int = bounds.MAX_BATCH_ITEMS,
        now: int | None = None,
    ) -> Trimmed:
        """See ``Admin.trim``."""
        self.validation.check_trim(ended_for, ledger_for, limit)
        ended_for, ledger_for = self.validation.retention(self, ended_for=ended_for, ledger_for=ledger_for, now=now)
        [counted] = self._function(
            "trim_1", self.space_name, self.validation.caller_now(now), ended_for, ledger_for, limit
        )
        jobs, ledger, dedupe, registry = counted
        return Trimmed(jobs=jobs, ledger=ledger, dedupe=dedupe, registry=registry, more=limit in counted)

    def vital_signs(self) -> VitalSigns:
        """For `holdfast doctor`: whether vacuum keeps up, and what may be holding it back."""
        [row] = self._query("vital_signs", {"schema": self._statements.schema})
        return VitalSigns(*row)

    def read(self, kind: str, keys: Sequence[str], *, now: int | None = None) -> list[Entry | None]:
        """See ``Registry.read``."""
        self.validation.check_read(kind, keys)
        asked = {"space": self.space_name, "kind": kind, "keys": list(keys), "now": self.validation.caller_now(now)}
        found = {row[0]: _entry(row) for row in self._query("read", asked)}
        return [found.get(key) for key in keys]

    def write(self, changes: Sequence[Change], *, now: int | None = None) -> list[Entry | None]:
        """See ``Registry.write``."""
        self.validation.check_write(changes)
        given = self.validation.caller_now(now)
        made = self._function(
            "write_1",
            self.space_name,
            given,
            names([change.kind for change in changes]),
            names([change.key for change in changes]),
            blobs([change.value for change in changes]),
            bigints([change.version for change in changes]),
            bigints([change.ttl for change in changes]),
            again=False,
        )
        return [
            None if version is None else Entry(key=one.key, value=one.value, version=version, expires_at=expires_at)
            for one, (version, expires_at) in zip(changes, made, strict=True)
        ]

    def scan(
        self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100, now: int | None = None
    ) -> list[Entry]:
        """See ``Registry.scan``: a range of the primary key, from the prefix to the first key that cannot have it."""
        self.validation.check_scan(kind, prefix, after, limit)
        asked = {
            "space": self.space_name,
            "kind": kind,
            "start": prefix,
            "stop": prefix + chr(0x10FFFF) if prefix else None,
            "after": after,
            "now": self.validation.caller_now(now),
            "limit": limit,
        }
        return [_entry(row) for row in self._query("scan", asked)]


def _asked(value: object) -> object:
    """A filter's value; one that no row can hold finds nothing rather than fail."""
    return storable(value) if isinstance(value, str) and "\0" in value else value


def _entry(row: Row) -> Entry:
    key, value, version, expires_at = row
    return Entry(key=key, value=value, version=version, expires_at=expires_at)


def position_of(cursor: str) -> tuple[int, int]:
    """The transaction and the number that a cursor of the ledger means."""
    parts = cursor.split("-")
    if len(parts) == 2 and all(part.isascii() and part.isdecimal() and int(part) <= LARGEST for part in parts):
        return int(parts[0]), int(parts[1])
    raise strange(cursor)


def strange(cursor: str) -> InvalidInput:
    """What is said of a cursor that this ledger never gave."""
    return InvalidInput("after", wanted="a cursor that this ledger gave (no other store, no older copy)", got=cursor)
