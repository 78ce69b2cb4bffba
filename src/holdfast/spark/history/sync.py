"""Bring a history up to date with its store. Runs on the Spark driver, which reads the store and commits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.clock import from_timedelta
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Write
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput
from holdfast.model import ledger_reader
from holdfast.model.job import JobRecord
from holdfast.spark.history.folder import Folder
from holdfast.spark.history.manifest import Commit, Head, Part, commit, newest
from holdfast.spark.history.marks import reader_name, register_mark
from holdfast.spark.history.schemas import jobs_table, leases_table, payloads_table
from holdfast.spark.history.store_reader import CHUNK_ROWS, Chunk, first_certain_instant, read_chunks
from holdfast.spark.history.tables import read_parts, write_rows

DEFAULT_HOLD = timedelta(days=30)  # how long trimming the store waits for the next sync


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """What a sync has added."""

    rows: int
    jobs: int  # records, of new jobs and of jobs that ended
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
    hold: timedelta | None = DEFAULT_HOLD,
    size: int = CHUNK_ROWS,
    on_progress: Callable[[int], None] | None = None,
) -> SyncResult:
    """Add to a history what has happened since the last sync: every row of the ledger exactly once, also after a crash.

    One commit adds about ``size`` rows together with the cursor after them; the next sync reads again what was not
    committed. Raises ``LedgerTrimmed`` if the store has trimmed rows that this history does not have, and
    ``HistoryConflict`` if another sync has committed in the meantime. Without ``payloads`` the jobs cannot run again.
    Trimming the store waits for the next sync, at most ``hold``; with None it does not wait.
    """
    place = Folder(spark, folder)
    head = newest(place)
    before = state = head.commit
    if state.number and state.space != space:
        raise InvalidInput("space", wanted=f"{state.space!r}, whose history this is", got=repr(space))
    start = state.position
    jobs = waiting = 0
    for chunk in read_chunks(store, state.cursor, size=size):
        if not state.number:
            state = _begin(store, chunk, space)
        added = _write_parts(spark, place, state, chunk, start, payloads=payloads)
        if not added and not chunk.rows and not state.parts_of("waiting") and state.number:
            _register(store, place, head, hold)
            break  # nothing is new
        head = commit(place, head, _next_commit(state, added, chunk, start))
        state = head.commit
        _register(store, place, head, hold)
        jobs += sum(part.rows for part in added if part.table == "jobs")
        waiting = state.rows_of("waiting")
        if on_progress is not None:
            on_progress(state.position - start)
    return SyncResult(
        rows=state.position - start,
        jobs=jobs,
        waiting=waiting,
        commits=state.number - before.number,
        position=state.position,
    )


def _begin(store: Store, chunk: Chunk, space: str) -> Commit:
    """Return the state of a new history, before its first commit."""
    return Commit(
        space=space,
        since=first_certain_instant(store, chunk.rows[0] if chunk.rows else None),
        serial_arrivals=store.engine.has_serial_arrivals,
    )


def _write_parts(
    spark: SparkSession, place: Folder, state: Commit, chunk: Chunk, start: int, *, payloads: bool
) -> list[Part]:
    position, snapshot = state.position + len(chunk.rows), start + (chunk.snapshot or 0)
    added = write_rows(spark, place, "leases", leases_table(chunk.rows, position=state.position))
    new_waiting: list[JobRecord] = []
    if chunk.waiting is not None:
        assert chunk.snapshot is not None
        added += write_rows(
            spark, place, "waiting", jobs_table(chunk.waiting, position=snapshot, arrivals=chunk.arrivals)
        )
        # A job that waits for the first time is also written to the table jobs: the next sync replaces the table
        # waiting, and a job that vanishes from the store must stay in the history.
        known = read_parts(spark, place, "waiting", state.parts_of("waiting")).select("job_id").toArrow().column(0)
        known_ids = frozenset(known.to_pylist())
        new_waiting = [job for job in chunk.waiting if job.id not in known_ids]
    tables: dict[str, Callable[..., pa.Table]] = {"jobs": partial(jobs_table, arrivals=chunk.arrivals)}
    if payloads:
        tables["payloads"] = payloads_table
    for name, to_table in tables.items():
        rows = [to_table(chunk.records, position=position), to_table(new_waiting, position=snapshot)]
        added += write_rows(spark, place, name, pa.concat_tables(rows))
    return added


def _next_commit(state: Commit, added: list[Part], chunk: Chunk, start: int) -> Commit:
    has_waiting = chunk.waiting is not None
    kept_parts = [part for part in state.parts if not (has_waiting and part.table == "waiting")]
    return msgspec.structs.replace(
        state,
        cursor=chunk.cursor,
        position=state.position + len(chunk.rows),
        snapshot=state.snapshot if chunk.snapshot is None else start + chunk.snapshot,
        parts=(*kept_parts, *added),
    )


def _register(store: Store, place: Folder, head: Head, hold: timedelta | None) -> None:
    """Register in the store the newest commit, and how far this history has read: trimming waits for it.

    With ``hold`` None, trimming does not wait.
    """
    if not store.capabilities.has(Feature.REGISTRY):
        return
    name = reader_name(place)
    changes = [register_mark(place, head.mark)]
    if hold is None:
        changes.append(ledger_reader.forget_reader(name))
    else:
        wait_for = from_timedelta(hold)
        changes.append(ledger_reader.register_reader(name, cursor=head.commit.cursor, wait_for=wait_for))
    store.do(Write(changes=changes))
