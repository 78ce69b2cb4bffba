"""What the rows of a history say, as tables for people and programs. Frames in, frames out: no files, no store."""

from __future__ import annotations

from pyspark.sql import DataFrame

from holdfast.spark.statements import query


def jobs(leases: DataFrame, records: DataFrame, waiting: DataFrame) -> DataFrame:
    """One row a job: what it is, where it stands, how often it ran, and of what it died."""
    return query(leases.sparkSession, "history_jobs", leases=leases, records=records, waiting=waiting)


def health(leases: DataFrame, jobs: DataFrame, stored: DataFrame, *, first: str) -> DataFrame:
    """A row for each queue, type and minute: arrivals, endings, percentiles of waiting and running, in seconds.

    ``stored`` is the same as it was, for the days before ``first``, of which not all rows are left.
    """
    parts = {"leases": leases, "jobs": jobs, "stored": stored}
    return query(leases.sparkSession, "history_health", first=_day(first), **parts)


def failures(jobs: DataFrame, stored: DataFrame, *, first: str) -> DataFrame:
    """A row for each kind of failure that made dead letters, by fingerprint.

    ``stored`` is the same as it was, for the dead letters that are forgotten. Those of before ``first`` count as such.
    """
    return query(jobs.sparkSession, "history_failures", first=_day(first), jobs=jobs, stored=stored)


def _day(first: str) -> str:
    return f"'{first or '0001-01-01'}'"
