"""Tables that summarise a history. Frames in, frames out: no files, no store. Runs on the Spark driver."""

from __future__ import annotations

from pyspark.sql import DataFrame

from holdfast.spark.statements import query


def jobs(leases: DataFrame, records: DataFrame, waiting: DataFrame) -> DataFrame:
    """Return one row for each job: its columns, its state, its leases, and for a dead letter the failure."""
    return query(leases.sparkSession, "history_jobs", leases=leases, records=records, waiting=waiting)


def health(leases: DataFrame, jobs: DataFrame, stored: DataFrame, *, first_day: str) -> DataFrame:
    """Return one row for each queue, type and minute: arrivals, endings, percentiles of wait and run in seconds.

    Of days before ``first_day`` not all rows are left: they come from ``stored``, an earlier result of this function.
    """
    parts = {"leases": leases, "jobs": jobs, "stored": stored}
    return query(leases.sparkSession, "history_health", first=_date_literal(first_day), **parts)


def failures(jobs: DataFrame, stored: DataFrame, *, first_day: str) -> DataFrame:
    """Return one row for each fingerprint of dead letters.

    ``stored`` is an earlier result of this function: it has the dead letters whose records are forgotten. Dead letters
    of jobs that were created before ``first_day`` count as forgotten.
    """
    return query(jobs.sparkSession, "history_failures", first=_date_literal(first_day), jobs=jobs, stored=stored)


def _date_literal(day: str) -> str:
    return f"'{day or '0001-01-01'}'"
