"""A history kept small: one part for each day instead of many, days that are too old gone, what is left of them kept.

Of days that are forgotten, ``health`` and ``failures`` stay: they are small, and are what one asks of old times. Every
compaction stores them anew from what there is, beside what it has stored of forgotten days.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import msgspec
from pyspark.sql import SparkSession

from holdfast.clock import HOUR, SystemClock, from_timedelta, to_datetime
from holdfast.spark.history.manifest import Commit, Folder, Part, commit
from holdfast.spark.history.sync import History
from holdfast.spark.history.tables import OF_JOBS, STORED, newest_of, put_frame, read_parts

WASTE_AFTER = 24 * HOUR  # no sync takes as long: parts that no commit names by then belong to one that died
SUMMARIES = ("health", "failures")


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
    place, history = Folder(spark, folder), History(spark, folder)
    before = after = history.commit
    now = SystemClock().now()
    asked = "" if keep is None else str(to_datetime(now - from_timedelta(keep)).date())
    first = max(asked, before.complete_from)
    if before.number != before.summarised or first != before.complete_from:
        after = _next(history, spark, place, first)
        commit(place, after)
    return Compacted(
        before=len(before.parts),
        after=len(after.parts),
        forgotten=sum(part.rows for part in before.parts if _is_forgotten(part, first)),
        waste=_swept(place, {part.path for part in after.parts}, now),
    )


def _is_forgotten(part: Part, first: str) -> bool:
    return part.table in ("leases", *OF_JOBS) and part.day < first


def _next(history: History, spark: SparkSession, place: Folder, first: str) -> Commit:
    """The commit that is to follow; its parts are written already."""
    state = history.commit
    parts = state.of("waiting")
    for table in ("leases", *OF_JOBS):
        kept = [part for part in state.of(table) if not _is_forgotten(part, first)]
        parts += _compacted(spark, place, table, kept)
    parts += _summarised(history, place, first)
    number = state.number + 1
    return msgspec.structs.replace(state, number=number, parts=tuple(parts), complete_from=first, summarised=number)


def _summarised(history: History, place: Folder, first: str) -> list[Part]:
    """Both summaries as new parts, made of all that is still there: days before ``first`` are so for the last time."""
    made: list[Part] = []
    for table, frame in (("health", history.health), ("failures", history.failures_from(first))):
        rows = frame.repartition("day").cache()  # a file for each
        days = {str(row["day"]): row["count"] for row in rows.groupBy("day").count().collect()}
        if days:
            made += put_frame(place, table, rows.select(*(field.name for field in STORED[table])), days)
        rows.unpersist()
    return made


def _compacted(spark: SparkSession, place: Folder, table: str, parts: list[Part]) -> list[Part]:
    by_day: dict[str, list[Part]] = {}
    for part in parts:
        by_day.setdefault(part.day, []).append(part)
    many = [part for of_day in by_day.values() if len(of_day) > 1 for part in of_day]
    if not many:
        return parts
    frame = read_parts(spark, place, table, many)
    days = {day: sum(part.rows for part in of_day) for day, of_day in by_day.items() if len(of_day) > 1}
    if table in OF_JOBS:
        frame = newest_of(frame, STORED[table]).cache()
        days = {str(row["day"]): row["count"] for row in frame.groupBy("day").count().collect()}
    made = put_frame(place, table, frame.repartition("day").sortWithinPartitions("day", "position"), days)
    frame.unpersist()
    return [part for part in parts if part not in many] + made


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
