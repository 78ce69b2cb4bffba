"""The tables of a history as parts of its folder: written under new names, read as a commit lists them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from uuid_utils import uuid7

from holdfast.spark.history.manifest import Folder, Part
from holdfast.spark.history.schemas import FAILURES, HEALTH, JOBS, LEASES, PAYLOADS, ddl

STORED = {
    "leases": LEASES,
    "jobs": JOBS,
    "payloads": PAYLOADS,
    "waiting": JOBS,
    "health": HEALTH,
    "failures": FAILURES,
}
OF_JOBS = ("jobs", "payloads")  # with versions of a job, of which the newest counts


def read_parts(spark: SparkSession, folder: Folder, table: str, parts: Iterable[Part]) -> DataFrame:
    """Rows by the names of today's columns: older files have nulls in those that they do not know."""
    schema = ddl(STORED[table])
    paths = [folder.at(part.path) for part in parts]
    if not paths:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(f"{schema}, part string").option("basePath", folder.at(table))
    return reader.parquet(*paths).drop("part")


def write_rows(spark: SparkSession, folder: Folder, table: str, rows: pa.Table) -> list[Part]:
    """New parts, a folder for each day: ``leases/day=2026-11-15/part=01a1.../*.parquet``."""
    if not rows.num_rows:
        return []
    days = pc.value_counts(rows.column("day")).to_pylist()
    frame = spark.createDataFrame(rows).coalesce(1)
    return put_frame(folder, table, frame, {str(each["values"]): each["counts"] for each in days})


def put_frame(folder: Folder, table: str, frame: DataFrame, days: dict[str, int]) -> list[Part]:
    """The same of a frame, of which it is known how many rows each day has."""
    name = f"p{uuid7()}"
    named = frame.selectExpr("*", f"'{name}' AS part")
    named.write.mode("append").partitionBy("day", "part").parquet(folder.at(table))
    return [
        Part(table=table, path=f"{table}/day={day}/part={name}", day=day, rows=count)
        for day, count in sorted(days.items())
    ]


def newest_of(versions: DataFrame, schema: pa.Schema) -> DataFrame:
    """Of each job the version that was read last."""
    columns = ", ".join(f"`{field.name}`" for field in schema)
    newest = f.expr(f"max_by(struct({columns}), position) AS newest")
    return versions.groupBy("job_id").agg(newest).selectExpr("newest.*")
