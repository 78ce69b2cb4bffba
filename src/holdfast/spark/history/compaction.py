"""Compaction: merge the parts of each day of a table into one, and forget old days. Runs on the Spark driver.

The summaries ``health`` and ``failures`` of forgotten days stay: both tables are small, and users need them for long
time ranges. Every compaction writes both summaries again, from the rows that are left and from the earlier summaries.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
from pyspark.sql import DataFrame, SparkSession

from holdfast.clock import HOUR, SystemClock, from_datetime, from_timedelta, to_datetime
from holdfast.spark.history.folder import Folder
from holdfast.spark.history.manifest import Commit, Part, commit
from holdfast.spark.history.reader import History
from holdfast.spark.history.tables import SCHEMAS, VERSIONED_TABLES, DayRows, newest_versions, read_parts, write_frame

UNUSED_PART_AGE = 24 * HOUR  # an older part that no commit names is removed: no sync takes that long


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """What a compaction has done."""

    before: int  # parts
    after: int
    forgotten: int  # rows that were too old
    waste: int  # parts that no commit named, removed


def compact(folder: str, *, spark: SparkSession, keep: timedelta | None = None) -> CompactionResult:
    """Write one part for each day of a table, with the newest version of each job; forget days older than ``keep``.

    Replaced parts stay for a day, for readers that still use them; the next compaction removes them.
    """
    place, history = Folder(spark, folder), History(spark, folder)
    before = after = history.commit
    now = SystemClock().now()
    keep_from = "" if keep is None else str(to_datetime(now - from_timedelta(keep)).date())
    first_day = max(keep_from, before.complete_from)
    if before.number != before.summarised or first_day != before.complete_from:
        after = commit(place, history.head, _next_commit(history, spark, place, first_day)).commit
    return CompactionResult(
        before=len(before.parts),
        after=len(after.parts),
        forgotten=sum(part.rows for part in before.parts if _is_forgotten(part, first_day)),
        waste=_remove_unused(place, {part.path for part in after.parts}, now),
    )


def _is_forgotten(part: Part, first_day: str) -> bool:
    return part.table in ("leases", *VERSIONED_TABLES) and part.day < first_day


def _next_commit(history: History, spark: SparkSession, place: Folder, first_day: str) -> Commit:
    """Write the new parts, and return the commit that names them."""
    state = history.commit
    parts = state.parts_of("waiting")
    for table in ("leases", *VERSIONED_TABLES):
        kept_parts = [part for part in state.parts_of(table) if not _is_forgotten(part, first_day)]
        parts += _compact_table(spark, place, table, kept_parts)
    parts += _write_summaries(history, place, first_day)
    forgotten = [part for part in state.parts_of("leases") if _is_forgotten(part, first_day)]
    return msgspec.structs.replace(
        state,
        parts=tuple(parts),
        complete_from=first_day,
        first_position=max([state.first_position, *((part.last_position or 0) + 1 for part in forgotten)]),
        since=max(state.since or 0, _start_of(first_day)) if forgotten else state.since,
        summarised=state.number + 1,
    )


def _start_of(day: str) -> int:
    return from_datetime(datetime.fromisoformat(day).replace(tzinfo=UTC))


def _write_summaries(history: History, place: Folder, first_day: str) -> list[Part]:
    """Write both summaries as new parts. Days before ``first_day`` are computed here for the last time."""
    parts: list[Part] = []
    for table, frame in (("health", history.health), ("failures", history.failures_from(first_day))):
        rows = frame.repartition("day").cache()  # one file for each day
        days = _count_by_day(rows)
        if days:
            parts += write_frame(place, table, rows.select(*SCHEMAS[table].names), days)
        rows.unpersist()
    return parts


def _compact_table(spark: SparkSession, place: Folder, table: str, parts: list[Part]) -> list[Part]:
    by_day: dict[str, list[Part]] = {}
    for part in parts:
        by_day.setdefault(part.day, []).append(part)
    split_days = {day: day_parts for day, day_parts in by_day.items() if len(day_parts) > 1}
    old_parts = [part for day_parts in split_days.values() for part in day_parts]
    if not old_parts:
        return parts
    frame = read_parts(spark, place, table, old_parts)
    days = {
        day: DayRows(sum(part.rows for part in day_parts), max((part.last_position or 0) for part in day_parts))
        for day, day_parts in split_days.items()
    }
    if table in VERSIONED_TABLES:
        frame = newest_versions(frame, SCHEMAS[table]).cache()
        days = _count_by_day(frame)
    new_parts = write_frame(place, table, frame.repartition("day").sortWithinPartitions("day", "position"), days)
    frame.unpersist()
    return [part for part in parts if part not in old_parts] + new_parts


def _count_by_day(frame: DataFrame) -> dict[str, DayRows]:
    return {str(row["day"]): DayRows(row["count"]) for row in frame.groupBy("day").count().collect()}


def _remove_unused(place: Folder, used: set[str], now: int) -> int:
    """Remove old parts that no commit names; no writer and no reader can still use them. Return their number."""
    unused = [
        path
        for table in SCHEMAS
        for day in place.names(table)
        if day.startswith("day=")
        for part in place.names(f"{table}/{day}")
        if (path := f"{table}/{day}/{part}") not in used and place.age(path, now) >= UNUSED_PART_AGE
    ]
    for path in unused:
        place.remove(path)
    return len(unused)
