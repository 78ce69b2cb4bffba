"""The numbers of a report, collected from the frames of a history. Runs on the Spark driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from holdfast.clock import DAY, HOUR, MINUTE, SECOND
from holdfast.spark.history.certificate import Certificate
from holdfast.spark.statements import query

MAX_STEPS = 120  # of time, in one plot
MAX_TABLE_ROWS = 12
STEP_LENGTHS = tuple(
    count * unit
    for unit, counts in (
        (SECOND, (1, 2, 5, 10, 15, 30)),
        (MINUTE, (1, 2, 5, 10, 15, 30)),
        (HOUR, (1, 2, 3, 6, 12)),
        (DAY, (1, 2, 7, 14, 30, 90, 365)),
    )
    for count in counts
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All numbers of a report, as plain values."""

    start: int
    step: int  # microseconds
    buckets: Sequence[Mapping[str, Any]]  # one for each step, in order
    queues: Sequence[Mapping[str, Any]]
    failures: Sequence[Mapping[str, Any]]
    certificate: Certificate


def collect_figures(leases: DataFrame, jobs: DataFrame, failures: DataFrame, certificate: Certificate) -> Figures:
    """Collect the numbers of a report: a few hundred rows, whatever the size of the history is."""
    [(first_arrival,)] = jobs.selectExpr("unix_micros(min(enqueued_at))").collect()
    last = certificate.last or 0
    first = min(certificate.first or 0, first_arrival or last)
    step = next((length for length in STEP_LENGTHS if (last - first) // length < MAX_STEPS), STEP_LENGTHS[-1])
    start = first // step * step
    literals = {"start": f"{start:d}L", "step": f"{step:d}L", "last": f"{(last - start) // step:d}L"}
    buckets = query(leases.sparkSession, "report_buckets", leases=leases, jobs=jobs, **literals).collect()
    return Figures(
        start=start,
        step=step,
        buckets=_fill_gaps([row.asDict() for row in buckets]),
        queues=_queues(jobs),
        failures=_failures(failures),
        certificate=certificate,
    )


def _fill_gaps(buckets: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return a bucket for every step: the query has no row for a step in which nothing happened."""
    by_step = {bucket["bucket"]: bucket for bucket in buckets}
    empty = {"wait": None, "run": None}
    return [by_step.get(step, empty) for step in range(max(by_step, default=-1) + 1)]


def _queues(jobs: DataFrame) -> list[Mapping[str, Any]]:
    rows = (
        jobs.groupBy("queue", "type")
        .pivot("state", ["ready", "inflight", "done", "dead", "cancelled"])
        .count()
        .fillna(0)
        .selectExpr("*", "ready + inflight AS waiting", "ready + inflight + done + dead + cancelled AS jobs")
        .orderBy("jobs", ascending=False)
        .limit(MAX_TABLE_ROWS)
    )
    return [row.asDict() for row in rows.collect()]


def _failures(failures: DataFrame) -> list[Mapping[str, Any]]:
    columns = ("fingerprint", "type", "reason", "error", "dead", "unix_micros(last_at) AS last_at")
    rows = failures.orderBy("dead", ascending=False).limit(MAX_TABLE_ROWS).selectExpr(*columns)
    return [row.asDict() for row in rows.collect()]
