"""The I/O around history, audit and report: a store into a folder of Parquet, and that folder into answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from uuid_utils import uuid7

from holdfast.clock import HOUR, SystemClock, from_timedelta, to_datetime
from holdfast.drivers.contract import Store
from holdfast.errors import InvalidInput
from holdfast.spark import history
from holdfast.spark.audit import Certificate, audit
from holdfast.spark.manifest import Commit, Folder, Part, commit, newest
from holdfast.spark.reading import CHUNK, Chunk, chunks
from holdfast.spark.report import figures, page
from holdfast.spark.rows import JOBS, LEASES, PAYLOADS, ddl, jobs_table, leases_table, payloads_table

STORED = {"leases": LEASES, "jobs": JOBS, "payloads": PAYLOADS, "waiting": JOBS}
OF_JOBS = ("jobs", "payloads")  # tables with versions of a job, of which the newest counts
WASTE_AFTER = 24 * HOUR  # no sync takes as long: parts that no commit names by then belong to one that died


# A folder ---------------------------------------------------------------------------------------------------


class History:
    """A folder as of its newest commit; it does not move on while it is read."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = Folder(spark, folder)
        self.commit = newest(self._folder)

    def stored(self, table: str) -> DataFrame:
        """``leases``, ``waiting``, or ``jobs`` and ``payloads`` (some in several versions), as they were written."""
        return _read(self._spark, self._folder, table, self.commit.of(table))

    @property
    def leases(self) -> DataFrame:
        """As it happened: every row of the ledger."""
        return self.stored("leases")

    @property
    def jobs(self) -> DataFrame:
        """One row a job."""
        return history.jobs(self.leases, self.stored("jobs"), self.stored("waiting"))

    @property
    def payloads(self) -> DataFrame:
        """What a job was enqueued with beside what ``jobs`` says; of some there is none."""
        return newest_of(self.stored("payloads"), PAYLOADS)

    @property
    def health(self) -> DataFrame:
        """One row for each queue, type and minute."""
        return history.health(self.leases, self.jobs)

    @property
    def failures(self) -> DataFrame:
        """Dead letters by fingerprint."""
        return history.failures(self.jobs)

    def audit(self) -> Certificate:
        """Judge all of it."""
        return audit(self.leases, self.stored("jobs"), self.stored("waiting"), snapshot=self.commit.snapshot)

    def page(self, title: str) -> tuple[str, Certificate]:
        """Everything on one page, and the certificate that is on it."""
        jobs = self.jobs.cache()
        try:
            certificate = self.audit()
            shown = figures(self.leases, jobs, history.failures(jobs), certificate)
        finally:
            jobs.unpersist()
        return page(shown, title=title), certificate


def _read(spark: SparkSession, folder: Folder, table: str, parts: Iterable[Part]) -> DataFrame:
    """Rows by the names of today's columns: older files have nulls in those that they do not know."""
    schema = ddl(STORED[table])
    paths = [folder.at(part.path) for part in parts]
    if not paths:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(f"{schema}, part string").option("basePath", folder.at(table))
    return reader.parquet(*paths).drop("part")


def _write(spark: SparkSession, folder: Folder, table: str, rows: pa.Table) -> list[Part]:
    """New parts, a folder for each day: ``leases/day=2026-11-15/part=01a1.../*.parquet``."""
    if not rows.num_rows:
        return []
    days = pc.value_counts(rows.column("day")).to_pylist()
    frame = spark.createDataFrame(rows).coalesce(1)
    return _put(folder, table, frame, {str(each["values"]): each["counts"] for each in days})


def _put(folder: Folder, table: str, frame: DataFrame, days: dict[str, int]) -> list[Part]:
    name = f"p{uuid7()}"
    named = frame.selectExpr("*", f"'{name}' AS part")
    named.write.mode("append").partitionBy("day", "part").parquet(folder.at(table))
    return [
        Part(table=table, path=f"{table}/day={day}/part={name}", day=day, rows=count)
        for day, count in sorted(days.items())
    ]


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
    size: int = CHUNK,
    on_progress: Callable[[int], None] | None = None,
) -> Synced:
    """Bring a history up to date with its store: every row of the ledger exactly once, whatever dies on the way.

    Rows become part of the history together with the cursor behind them, by one commit, some hundred thousand at a
    time; whatever was not committed is read again by the next sync. Raises ``LedgerTrimmed`` if the store has
    forgotten rows that this history does not have, ``HistoryConflict`` if another sync was faster. Without ``payloads``
    jobs can be looked at, but not replayed.
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
            break  # nothing is new
        state = _advanced(state, added, chunk, start, space)
        commit(place, state)
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
    added = _write(spark, place, "leases", leases_table(chunk.rows, position=state.position))
    records = list(chunk.records)
    if chunk.waiting is not None:
        assert chunk.snapshot is not None
        added += _write(spark, place, "waiting", jobs_table(chunk.waiting, position=start + chunk.snapshot))
        # Once more among the jobs, when first seen: what waits is replaced by the next sync, and must not be forgotten.
        seen = _read(spark, place, "waiting", state.of("waiting")).select("job_id").toArrow().column(0)
        known = frozenset(seen.to_pylist())
        waits = [job for job in chunk.waiting if job.id not in known]
    else:
        waits = []
    read_at = start + (chunk.snapshot or 0)
    tables = {"jobs": jobs_table, "payloads": payloads_table} if payloads else {"jobs": jobs_table}
    for table, made in tables.items():
        rows = [made(records, position=position), made(waits, position=read_at)]
        added += _write(spark, place, table, pa.concat_tables(rows))
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
        snapshot=state.snapshot if chunk.snapshot is None else start + chunk.snapshot,
        parts=(*kept, *added),
    )


# Keeping it small -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a compaction has done."""

    before: int  # parts
    after: int
    forgotten: int  # rows that were too old
    waste: int  # parts that no commit named


def compact(folder: str, *, spark: SparkSession, keep: timedelta | None = None) -> Compacted:
    """One part for each day of a table, of every job the newest record; and nothing that is older than ``keep``.

    Parts that are replaced stay for a day, for whoever reads them; then the next compaction removes them.
    """
    place = Folder(spark, folder)
    state = newest(place)
    now = SystemClock().now()
    first = "" if keep is None else str(to_datetime(now - from_timedelta(keep)).date())
    kept = [part for part in state.parts if part.table == "waiting" or part.day >= first]
    parts = [part for part in kept if part.table == "waiting"]
    for table in ("leases", *OF_JOBS):
        parts += _compacted(spark, place, table, [part for part in kept if part.table == table])
    forgotten = sum(part.rows for part in state.parts) - sum(part.rows for part in kept)
    if tuple(parts) != state.parts:
        commit(place, msgspec.structs.replace(state, number=state.number + 1, parts=tuple(parts)))
    return Compacted(
        before=len(state.parts),
        after=len(parts),
        forgotten=forgotten,
        waste=_swept(place, {p.path for p in parts}, now),
    )


def _compacted(spark: SparkSession, place: Folder, table: str, parts: list[Part]) -> list[Part]:
    by_day: dict[str, list[Part]] = {}
    for part in parts:
        by_day.setdefault(part.day, []).append(part)
    many = [part for of_day in by_day.values() if len(of_day) > 1 for part in of_day]
    if not many:
        return parts
    frame = _read(spark, place, table, many)
    days = {day: sum(part.rows for part in of_day) for day, of_day in by_day.items() if len(of_day) > 1}
    if table in OF_JOBS:
        frame = newest_of(frame, STORED[table]).cache()
        days = {str(row["day"]): row["count"] for row in frame.groupBy("day").count().collect()}
    made = _put(place, table, frame.repartition("day").sortWithinPartitions("day", "position"), days)
    frame.unpersist()
    return [part for part in parts if part not in many] + made


def newest_of(versions: DataFrame, schema: pa.Schema) -> DataFrame:
    """Of each job the version that was read last."""
    columns = ", ".join(f"`{field.name}`" for field in schema)
    newest = F.expr(f"max_by(struct({columns}), position) AS newest")
    return versions.groupBy("job_id").agg(newest).selectExpr("newest.*")


def _swept(place: Folder, named: set[str], now: int) -> int:
    """Remove what no commit names and nobody can be writing or reading any more."""
    waste = [
        path
        for table in STORED
        for day in place.names(table)
        if day.startswith("day=")
        for part in place.names(f"{table}/{day}")
        if (path := f"{table}/{day}/{part}") not in named and place.age(path, now) >= WASTE_AFTER
    ]
    for path in waste:
        place.remove(path)
    return len(waste)


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
