"""The SQL statements in ``queries/``, one statement in each file, run over frames. Runs on the Spark driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

QUERIES = Path(__file__).with_name("queries")


def query(spark: SparkSession, name: str, **parts: DataFrame | str) -> DataFrame:
    """Return the result of a statement. ``{name}`` in the statement is a frame, or a literal from our own code."""
    text = (QUERIES / f"{name}.sql").read_text(encoding="utf-8")
    for key, part in parts.items():
        if isinstance(part, str):
            text = text.replace(f"{{{key}}}", part)
    frames: dict[str, Any] = {key: part for key, part in parts.items() if isinstance(part, DataFrame)}
    return spark.sql(text, **frames)
