"""The tables of a history as parts in its folder. Called on the Spark driver; Spark reads and writes the files."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from uuid_utils import uuid7

from holdfast.spark.column_schemas import ddl
from holdfast.spark.history.folder import Folder
from holdfast.spark.history.manifest import Part
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


def write_rows(spark: SparkSession, folder: Folder, table: str, rows: pa.Table) -> list[Part]:
    """Write rows as new parts, one folder for each day: ``leases/day=2026-11-15/part=01a1.../*.parquet``."""
    if not rows.num_rows:
        return []
    days = pc.value_counts(rows.column("day")).to_pylist()
    frame = spark.createDataFrame(rows).coalesce(1)
    return write_frame(folder, table, frame, {str(each["values"]): each["counts"] for each in days})


def write_frame(folder: Folder, table: str, frame: DataFrame, rows_by_day: dict[str, int]) -> list[Part]:
    """Write a frame as new parts, one folder for each day. The caller has counted the rows of each day."""
    name = f"p{uuid7()}"
    named = frame.selectExpr("*", f"'{name}' AS part")
    named.write.mode("append").partitionBy("day", "part").parquet(folder.at(table))
    return [
        Part(table=table, path=f"{table}/day={day}/part={name}", day=day, rows=count)
        for day, count in sorted(rows_by_day.items())
    ]


def newest_versions(versions: DataFrame, schema: pa.Schema) -> DataFrame:
    """Return the version of each job that was read last."""
    columns = ", ".join(f"`{field.name}`" for field in schema)
    newest = f.expr(f"max_by(struct({columns}), position) AS newest")
    return versions.groupBy("job_id").agg(newest).selectExpr("newest.*")
