"""What the rows of a history say, as tables for people and programs. Frames in, frames out: no files, no store."""

from __future__ import annotations

from pyspark.sql import DataFrame

from holdfast.spark.statements import query


def jobs(leases: DataFrame, records: DataFrame, waiting: DataFrame) -> DataFrame:
    """One row a job: what it is, where it stands, how often it ran, and of what it died."""
    return query(leases.sparkSession, "history_jobs", leases=leases, records=records, waiting=waiting)


def health(leases: DataFrame, jobs: DataFrame) -> DataFrame:
    """A row for each queue, type and minute: arrivals, endings, percentiles of waiting and running, in seconds."""
    return query(leases.sparkSession, "history_health", leases=leases, jobs=jobs)


def failures(jobs: DataFrame) -> DataFrame:
    """A row for each kind of failure that made dead letters, by fingerprint."""
    return query(jobs.sparkSession, "history_failures", jobs=jobs)
