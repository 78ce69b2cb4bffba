"""Check the laws on a whole history: find every row that must not exist, and every row that is missing.

One pass checks all laws of jobs: one shuffle brings the record and the rows of a job together, and all windows share
one sort. Domains and keys have separate passes, over the rows that have one; positions have a pass without a shuffle.
The order of offsets has one, too, if there are offsets. One Spark job counts all violations; their evidence is fetched
only if there are any. Runs on the Spark driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row

from holdfast.spark.history import offset_audit, position_audit
from holdfast.spark.history.certificate import (
    CHECKS,
    DOMAIN_CHECKS,
    FILE_CHECKS,
    JOB_CHECKS,
    KEY_CHECKS,
    MAX_EVIDENCE,
    Certificate,
    Violation,
)
from holdfast.spark.statements import query

CONCURRENT_ARRIVAL_SECONDS = 1  # two calls of enqueue within this time may commit in either order

STATES = ("done", "dead", "cancelled", "waiting", "purged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What the tables of a history must contain, by its commits.

    ``snapshot`` is the number of ledger rows that had been read before the waiting jobs were read. With None no job can
    be reported as lost.
    """

    position: int  # every position from ``first_position`` up to here, exclusive, has one ledger row
    first_position: int = 0
    rows_before: int = 0  # ledger rows that are left of earlier positions
    jobs: int  # rows of the table
    waiting: int
    snapshot: int | None
    since: int | None = None  # instant: ledger rows that ended before it may be missing
    serial_arrivals: bool = True  # whether the store enqueued one call at a time


def audit(leases: DataFrame, jobs: DataFrame, waiting: DataFrame, *, scope: Scope) -> Certificate:
    """Check a history: its ledger rows, all jobs that were ever read, and the jobs that waited at the last sync."""
    passes = _make_passes(leases, jobs, waiting, scope)
    buckets = position_audit.count_rows(leases, scope.first_position, scope.position)
    totals = _count(*passes)
    positions = position_audit.find_violations(
        leases, buckets.collect(), scope.first_position, scope.position, rows_before=scope.rows_before
    )
    differing = {
        table: (wanted, totals[f"{table}_rows"])
        for table, wanted in (("jobs", scope.jobs), ("waiting", scope.waiting))
        if totals[f"{table}_rows"] != wanted
    }
    violation_counts = {check: int(totals[check] or 0) for check in (*JOB_CHECKS, *DOMAIN_CHECKS, *KEY_CHECKS)}
    found = {**positions.counts, "table_rows": len(differing), **violation_counts}
    return Certificate(
        rows=totals["rows"],
        leases=totals["leases"],
        jobs=totals["jobs"],
        domains=totals["domains"],
        keys=totals["keys"],
        states={state: totals[f"is_{state}"] for state in STATES if totals[f"is_{state}"]},
        first=totals["first"],
        last=totals["last"],
        first_position=scope.first_position,
        position=scope.position,
        violation_counts={check: found[check] for check in CHECKS if check not in FILE_CHECKS},
        violations=[
            *positions.violations,
            *(
                Violation(check="table_rows", facts={"table": table, "wanted": wanted, "got": got})
                for table, (wanted, got) in differing.items()
            ),
            *_read_evidence(passes, violation_counts),
        ],
    )


Passes = tuple[DataFrame, DataFrame, DataFrame]  # over jobs, domains, keys


def _make_passes(leases: DataFrame, jobs: DataFrame, waiting: DataFrame, scope: Scope) -> Passes:
    spark = leases.sparkSession
    job_rows = query(spark, "audit_rows", leases=leases, jobs=jobs, waiting=waiting)
    literals = {
        "snapshot": "NULL" if scope.snapshot is None else f"{scope.snapshot:d}L",
        "since": "CAST(NULL AS TIMESTAMP)" if scope.since is None else f"timestamp_micros({scope.since:d})",
    }
    checked_rows = query(spark, "audit_jobs", job_rows=job_rows, **literals)
    # A second pass over the jobs with a domain, which are usually few: all rows of a job have its domain, or none.
    domain_rows = query(spark, "audit_jobs", job_rows=job_rows.where("domain IS NOT NULL"), **literals)
    slack = 0 if scope.serial_arrivals else CONCURRENT_ARRIVAL_SECONDS
    checked_domains = query(spark, "audit_domains", checked_rows=domain_rows, slack=f"{slack:d}")
    if not leases.where("offset IS NOT NULL").isEmpty():  # reads one column, which few histories have
        overtaken = offset_audit.find_overtaken(domain_rows, slack_seconds=slack)
        checked_domains = checked_domains.unionByName(overtaken, allowMissingColumns=True)
    return (checked_rows, checked_domains, query(spark, "audit_keys", leases=leases, jobs=jobs, waiting=waiting))


def _count(by_job: DataFrame, by_domain: DataFrame, by_key: DataFrame) -> Row:
    """Return all counts in one row, by one Spark job."""

    def violations(checks: Mapping[str, str]) -> list[str]:
        return [f"count_if({check}) AS {check}" for check in checks]

    jobs = by_job.selectExpr(
        "count_if(is_row) AS rows",
        "count_if(is_lease) AS leases",
        "count_if(is_last) AS jobs",
        "count_if(NOT is_row AND NOT waits) AS jobs_rows",
        "count_if(NOT is_row AND waits) AS waiting_rows",
        *(f"count_if(is_last AND job_state = '{state}') AS is_{state}" for state in STATES),
        "unix_micros(min(coalesce(reserved_at, ended_at))) AS first",
        "unix_micros(max(ended_at)) AS last",
        *violations(JOB_CHECKS),
    )
    domains = by_domain.selectExpr("count_if(is_first) AS domains", *violations(DOMAIN_CHECKS))
    keys = by_key.selectExpr("count_if(last_job IS NULL) AS keys", *violations(KEY_CHECKS))
    [totals] = jobs.crossJoin(domains).crossJoin(keys).collect()
    return totals


_ORDERS = (("position", "job_id"), ("position", "job_id"), ("job_id",))  # by pass: the order of the violations
_FACTS = {
    "overlap": ("fence", "reserved_at", "ended_at", "held_until"),
    "fence_fell": ("fence", "last_fence", "ended_at"),
    "ended_twice": ("fence", "ending", "ended_at", "last_ended_at"),
    "acked_twice": ("fence", "ended_at", "last_ended_at"),
    "after_end": ("fence", "ending", "reserved_at", "ended_at", "last_state", "last_ended_at"),
    "max_attempts": ("fence", "attempt", "runs", "allowed"),
    "attempts": ("fence", "attempt", "attempts_before", "last_ending"),
    "states": ("fence", "ending", "state", "last_state"),
    "accepted_twice": ("enqueued_at", "last_state", "last_ended_at"),
    "records": ("record_state", "record_attempts", "ending", "state", "attempt", "ended_at"),
    "lost": ("ending", "state", "ended_at", "record_state"),
    "domain_overlap": ("domain", "reserved_at", "domain_held_until", "last_job"),
    "domain_order": (
        *("domain", "offset", "arrived_at", "reserved_at", "place"),
        *("last_job", "last_offset", "last_reserved_at", "last_turn_until", "last_place"),
    ),
    "domain_past": ("domain", "offset", "acked_job", "acked_at"),
    "dedupe": ("queue", "key", "enqueued_at", "last_job"),
}


def _read_evidence(passes: Passes, violation_counts: Mapping[str, int]) -> list[Violation]:
    """Return the first violations of each check, by one Spark job for each pass that has violations."""
    violations: list[Violation] = []
    for frame, checks, order in zip(passes, (JOB_CHECKS, DOMAIN_CHECKS, KEY_CHECKS), _ORDERS, strict=True):
        broken = [check for check in checks if violation_counts[check]]
        if not broken:
            continue
        facts = list(dict.fromkeys([*order, *(fact for check in broken for fact in _FACTS[check])]))
        checks_of_row = ", ".join(f"CASE WHEN {check} THEN '{check}' END" for check in broken)
        nth = f"row_number() OVER (PARTITION BY check ORDER BY {', '.join(order)})"
        rows = (
            # Without a filter on the checks: Spark's optimizer would need minutes for a disjunction of so many.
            frame.selectExpr(f"explode(array_compact(array({checks_of_row}))) AS check", *map(_column, facts))
            .selectExpr("*", f"{nth} AS nth")
            .where(f"nth <= {MAX_EVIDENCE:d}")
            .collect()
        )
        for check in broken:
            in_order = sorted((row for row in rows if row["check"] == check), key=lambda row: int(row["nth"]))
            violations += [Violation(check=check, job_id=row["job_id"], facts=_facts(row, check)) for row in in_order]
    return violations


def _column(name: str) -> str:
    """Return the column of a fact. Instants are microseconds: Spark would convert them to this process's time zone."""
    return f"unix_micros({name}) AS {name}" if name.endswith(("_at", "_until")) else name


def _facts(row: Row, check: str) -> dict[str, Any]:
    return {name: row[name] for name in _FACTS[check] if row[name] is not None}
