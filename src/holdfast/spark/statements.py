"""The statements of ``queries/``: one file each, over frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

QUERIES = Path(__file__).with_name("queries")


def query(spark: SparkSession, name: str, **parts: DataFrame | str) -> DataFrame:
    """What a statement gives. ``{name}`` in it stands for a frame, or for a literal of our own making."""
    text = (QUERIES / f"{name}.sql").read_text(encoding="utf-8")
    for key, part in parts.items():
        if isinstance(part, str):
            text = text.replace(f"{{{key}}}", part)
    frames: dict[str, Any] = {key: part for key, part in parts.items() if isinstance(part, DataFrame)}
    return spark.sql(text, **frames)
