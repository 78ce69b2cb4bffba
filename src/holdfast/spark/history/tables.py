"""The tables of a history as parts in its folder. Called on the Spark driver; Spark reads and writes the files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from uuid_utils import uuid7

from holdfast.spark.column_schemas import ddl
from holdfast.spark.history.folder import Folder
from holdfast.spark.history.manifest import File, Part
from holdfast.spark.history.schemas import FAILURES, HEALTH, JOBS, LEASES, PAYLOADS

SCHEMAS = {
    "leases": LEASES,
    "jobs": JOBS,
    "payloads": PAYLOADS,
    "waiting": JOBS,
    "health": HEALTH,
    "failures": FAILURES,
}
VERSIONED_TABLES = ("jobs", "payloads")  # several versions of a job, of which the newest is valid


def read_parts(spark: SparkSession, folder: Folder, table: str, parts: Iterable[Part]) -> DataFrame:
    """Return the rows of these parts. Columns are matched by name: an old file has nulls in newer columns."""
    schema = ddl(SCHEMAS[table])
    paths = [folder.at(part.path) for part in parts]
    if not paths:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(f"{schema}, part string").option("basePath", folder.at(table))
    return reader.parquet(*paths).drop("part")


class DayRows(NamedTuple):
    """The rows that a part gets."""

    rows: int
    last_position: int | None = None  # of a ledger row; None for the other tables


def write_rows(spark: SparkSession, folder: Folder, table: str, rows: pa.Table) -> list[Part]:
    """Write rows as new parts, one folder for each day: ``leases/day=2026-11-15/part=01a1.../*.parquet``."""
    if not rows.num_rows:
        return []
    by_day = rows.select(["day", "position"]).group_by("day").aggregate([("position", "count"), ("position", "max")])
    days = {
        str(each["day"]): DayRows(each["position_count"], each["position_max"] if table == "leases" else None)
        for each in by_day.to_pylist()
    }
    return write_frame(folder, table, spark.createDataFrame(rows).coalesce(1), days)


def write_frame(folder: Folder, table: str, frame: DataFrame, days: Mapping[str, DayRows]) -> list[Part]:
    """Write a frame as new parts, one folder for each day. The caller has counted the rows of each day."""
    name = f"p{uuid7()}"
    named = frame.selectExpr("*", f"'{name}' AS part")
    named.write.mode("append").partitionBy("day", "part").parquet(folder.at(table))
    return [_describe_part(folder, table, f"{table}/day={day}/part={name}", day, days[day]) for day in sorted(days)]


def _describe_part(folder: Folder, table: str, path: str, day: str, count: DayRows) -> Part:
    files = tuple(
        File(name=name, size=folder.size(f"{path}/{name}"), checksum=folder.checksum(f"{path}/{name}"))
        for name in data_files(folder, path)
    )
    return Part(table=table, path=path, day=day, rows=count.rows, last_position=count.last_position, files=files)


def data_files(folder: Folder, path: str) -> list[str]:
    """Return the names of the files in a part that Spark reads, sorted: Spark ignores names that begin with . or _."""
    return [name for name in folder.names(path) if not name.startswith((".", "_"))]


def newest_versions(versions: DataFrame, schema: pa.Schema) -> DataFrame:
    """Return the version of each job that was read last."""
    columns = ", ".join(f"`{field.name}`" for field in schema)
    newest = f.expr(f"max_by(struct({columns}), position) AS newest")
    return versions.groupBy("job_id").agg(newest).selectExpr("newest.*")
