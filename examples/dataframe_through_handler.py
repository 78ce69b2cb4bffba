"""A DataFrame through a handler: every row has its own lease and retries, or becomes a dead letter."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import functions as f

from holdfast import Context, Unrecoverable
from holdfast.spark import run, session


def locate(row: dict[str, Any], ctx: Context) -> dict[str, float]:
    """Runs on an executor, in a child process: if it raises, hangs or crashes, only its own row is affected."""
    if row["city"] == "Atlantis":
        raise Unrecoverable("no such city")
    if row["id"] % 50 == 0 and ctx.attempt == 1:
        raise TimeoutError("the map did not answer")
    return {"lat": 50 + row["id"] / 1000, "lon": 8.5}


with TemporaryDirectory() as folder:
    spark = session()
    visits = spark.range(200).selectExpr("id", "if(id % 40 = 7, 'Atlantis', concat('city-', id)) AS city")

    # The name of the run makes it resumable: a second call with that name skips the rows that have already ended.
    url = f"sqlite:///{Path(folder, 'jobs.db')}"
    ok, dead = run(visits, locate, key="id", url=url, run="visits-2026-11", max_attempts=3)

    place = f.from_json("holdfast.result", "lat double, lon double").alias("place")
    ok.select("id", "city", "holdfast.attempts", place).orderBy("id").show(3, truncate=False)
    dead.select("id", "city", "holdfast.reason", "holdfast.attempts").orderBy("id").show(truncate=False)

    assert (ok.count(), dead.count()) == (195, 5)
    assert ok.where("holdfast.attempts = 2").count() == 4
    assert {row["holdfast"]["reason"] for row in dead.collect()} == {"no such city"}
