"""The I/O around history, audit and report: a store into a folder of Parquet, and that folder into answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.clock import HOUR, from_timedelta
from holdfast.drivers.contract import Feature, Store
from holdfast.errors import InvalidInput
from holdfast.model import ledger_reader
from holdfast.spark.history import summaries
from holdfast.spark.history.audit import Certificate, audit
from holdfast.spark.history.manifest import Commit, Folder, Part, commit, newest
from holdfast.spark.history.schemas import PAYLOADS, jobs_table, leases_table, payloads_table
from holdfast.spark.history.store_reader import CHUNK, Chunk, chunks
from holdfast.spark.history.tables import newest_of, read_parts, write_rows
from holdfast.spark.report.page import Figures, figures, page
from holdfast.spark.report.picture import figure

HOLD = timedelta(days=30)  # that trimming waits for the next sync
OVERTAKEN = HOUR  # by which a row that is not read yet may have ended before one that is: its transaction was open


# A folder ---------------------------------------------------------------------------------------------------


class History:
    """A folder as of its newest commit; it does not move on while it is read."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = Folder(spark, folder)
        self.commit = newest(self._folder)

    def stored(self, table: str) -> DataFrame:
        """A table as it was written: of ``jobs`` and ``payloads`` some rows in several versions."""
        return read_parts(self._spark, self._folder, table, self.commit.of(table))

    @property
    def leases(self) -> DataFrame:
        """As it happened: every row of the ledger."""
        return self.stored("leases")

    @property
    def jobs(self) -> DataFrame:
        """One row a job."""
        return summaries.jobs(self.leases, self.stored("jobs"), self.stored("waiting"))

    @property
    def payloads(self) -> DataFrame:
        """What a job was enqueued with beside what ``jobs`` says; of some there is none."""
        return newest_of(self.stored("payloads"), PAYLOADS)

    @property
    def health(self) -> DataFrame:
        """One row for each queue, type and minute."""
        stored, first = self.stored("health"), self.commit.complete_from
        return summaries.health(self.leases, self.jobs, stored, first=first)

    @property
    def failures(self) -> DataFrame:
        """Dead letters by fingerprint."""
        return self.failures_from(self.commit.complete_from)

    def failures_from(self, first: str) -> DataFrame:
        """The same, for a history that is about to forget the jobs of before a day."""
        return summaries.failures(self.jobs, self.stored("failures"), first=first)

    def audit(self) -> Certificate:
        """Judge all of it."""
        return audit(self.leases, self.stored("jobs"), self.stored("waiting"), snapshot=self.commit.snapshot)

    def page(self, title: str) -> tuple[str, Certificate]:
        """Everything on one page, and the certificate that is on it."""
        shown = self._figures()
        return page(shown, title=title), shown.certificate

    def figure(self, title: str) -> tuple[bytes, Certificate]:
        """The same as one picture, in PNG."""
        shown = self._figures()
        return figure(self._spark, shown, title=title), shown.certificate

    def _figures(self) -> Figures:
        jobs = self.jobs.cache()
        try:
            failures = summaries.failures(jobs, self.stored("failures"), first=self.commit.complete_from)
            return figures(self.leases, jobs, failures, self.audit())
        finally:
            jobs.unpersist()


# A store into it --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """What a sync has added."""

    rows: int
    jobs: int  # records, of new jobs and of those that ended
    waiting: int
    commits: int
    position: int  # ledger rows of the whole history


def sync(
    store: Store,
    folder: str,
    *,
    spark: SparkSession,
    space: str = "main",
    payloads: bool = True,
    hold: timedelta | None = HOLD,
    size: int = CHUNK,
    on_progress: Callable[[int], None] | None = None,
) -> Synced:
    """Bring a history up to date with its store: every row of the ledger exactly once, whatever dies on the way.

    Rows become part of the history together with the cursor behind them, by one commit, some hundred thousand at a
    time; whatever was not committed is read again by the next sync. Raises ``LedgerTrimmed`` if the store has
    forgotten rows that this history does not have, ``HistoryConflict`` if another sync was faster. Without ``payloads``
    jobs can be looked at, but not replayed. Trimming the store waits ``hold`` for the next sync; not at all without.
    """
    place = Folder(spark, folder)
    before = state = newest(place)
    if state.number and state.space != space:
        raise InvalidInput("space", wanted=f"{state.space!r}, whose history this is", got=repr(space))
    start = state.position
    jobs = waiting = 0
    for chunk in chunks(store, state.cursor, size=size):
        added = _added(spark, place, state, chunk, start, payloads=payloads)
        if not added and not chunk.rows and not state.of("waiting") and state.number:
            _hold(store, place, state, hold)
            break  # nothing is new
        state = _advanced(state, added, chunk, start, space)
        commit(place, state)
        _hold(store, place, state, hold)
        jobs += sum(part.rows for part in added if part.table == "jobs")
        waiting = sum(part.rows for part in state.of("waiting"))
        if on_progress is not None:
            on_progress(state.position - start)
    return Synced(
        rows=state.position - start,
        jobs=jobs,
        waiting=waiting,
        commits=state.number - before.number,
        position=state.position,
    )


def _added(
    spark: SparkSession, place: Folder, state: Commit, chunk: Chunk, start: int, *, payloads: bool
) -> list[Part]:
    position = state.position + len(chunk.rows)
    added = write_rows(spark, place, "leases", leases_table(chunk.rows, position=state.position))
    records = list(chunk.records)
    if chunk.waiting is not None:
        assert chunk.snapshot is not None
        added += write_rows(spark, place, "waiting", jobs_table(chunk.waiting, position=start + chunk.snapshot))
        # Once more among the jobs, when first seen: what waits is replaced by the next sync, and must not be forgotten.
        seen = read_parts(spark, place, "waiting", state.of("waiting")).select("job_id").toArrow().column(0)
        known = frozenset(seen.to_pylist())
        waits = [job for job in chunk.waiting if job.id not in known]
    else:
        waits = []
    read_at = start + (chunk.snapshot or 0)
    tables = {"jobs": jobs_table, "payloads": payloads_table} if payloads else {"jobs": jobs_table}
    for table, made in tables.items():
        rows = [made(records, position=position), made(waits, position=read_at)]
        added += write_rows(spark, place, table, pa.concat_tables(rows))
    return added


def _advanced(state: Commit, added: list[Part], chunk: Chunk, start: int, space: str) -> Commit:
    looked = chunk.waiting is not None
    kept = [part for part in state.parts if not (looked and part.table == "waiting")]
    return msgspec.structs.replace(
        state,
        number=state.number + 1,
        space=space,
        cursor=chunk.cursor,
        position=state.position + len(chunk.rows),
        read_until=chunk.rows[-1].ended_at - OVERTAKEN if chunk.rows else state.read_until,
        snapshot=state.snapshot if chunk.snapshot is None else start + chunk.snapshot,
        parts=(*kept, *added),
    )


def _hold(store: Store, place: Folder, state: Commit, wait_for: timedelta | None) -> None:
    """Register how far this history has read, or that nobody needs to wait for it."""
    if not store.capabilities.has(Feature.REGISTRY) or state.read_until is None:
        return
    name = f"history:{hashlib.blake2b(place.root.encode(), digest_size=8).hexdigest()}"
    if wait_for is None:
        store.write([ledger_reader.forget(name)])
    else:
        until = max(state.read_until, 0)
        store.write([ledger_reader.register(name, read_until=until, wait_for=from_timedelta(wait_for))])


# A store without a folder -----------------------------------------------------------------------------------


def audit_store(store: Store, *, spark: SparkSession) -> Certificate:
    """Judge what a store holds now. Its whole ledger passes through this process: a large one is synced first."""
    leases, records = [leases_table([], position=0)], [jobs_table([], position=0)]
    waiting, snapshot, position = records[0], 0, 0
    for chunk in chunks(store, None):
        leases.append(leases_table(chunk.rows, position=position))
        position += len(chunk.rows)
        records.append(jobs_table(chunk.records, position=position))
        if chunk.waiting is not None:
            waiting, snapshot = jobs_table(chunk.waiting, position=position), chunk.snapshot or 0
    frames = [spark.createDataFrame(table) for table in (pa.concat_tables(leases), pa.concat_tables(records), waiting)]
    return audit(*frames, snapshot=snapshot)
