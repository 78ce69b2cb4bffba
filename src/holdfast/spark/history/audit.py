"""Check the laws on a whole history: find every row that must not exist. Runs on the Spark driver.

One pass checks all laws of jobs: one shuffle brings the record and the rows of a job together, and all windows share
one sort. Domains and keys have separate passes, over the rows that have one. One Spark job counts all violations; their
evidence is fetched only if there are any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row

from holdfast.spark.statements import query

MAX_EVIDENCE = 10  # violations of one check that the certificate shows
ARRIVAL_SLACK_SECONDS = 1  # jobs of a domain that arrived within this time may run in either order

# The name of a check is a column of its query; the certificate shows the text if there is no violation.
JOB_CHECKS: Mapping[str, str] = {
    "overlap": "no two leases of a job were valid at the same time",
    "fence_fell": "the fences of every job only grew",
    "ended_twice": "no lease ended twice",
    "acked_twice": "no job was acked twice",
    "after_end": "no job ran after its end",
    "max_attempts": "no job ran more often than it may",
    "attempts": "every attempt was counted",
    "states": "every ending left the state that belongs to it",
    "accepted_twice": "no id was accepted twice",
    "lost": "every job seen is done, dead, cancelled or waiting",
}
DOMAIN_CHECKS: Mapping[str, str] = {
    "domain_overlap": "every domain ran one job at a time",
    "domain_order": "every domain kept its order",
}
KEY_CHECKS: Mapping[str, str] = {"dedupe": "no idempotency key belonged to two jobs at a time"}
CHECKS: Mapping[str, str] = {**JOB_CHECKS, **DOMAIN_CHECKS, **KEY_CHECKS}

STATES = ("done", "dead", "cancelled", "waiting", "purged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One row that breaks a law, and the facts that prove it."""

    check: str
    job_id: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What was checked, and the violations of each check."""

    rows: int
    leases: int
    jobs: int
    domains: int
    keys: int
    states: Mapping[str, int]  # jobs by state; "waiting" is ready or in flight
    first: int | None  # the first and the last instant, in microseconds
    last: int | None
    violation_counts: Mapping[str, int]  # by check, in the order of CHECKS
    violations: Sequence[Violation]  # at most MAX_EVIDENCE of each check

    @property
    def holds(self) -> bool:
        """Whether no check found a violation."""
        return not any(self.violation_counts.values())


def audit(leases: DataFrame, jobs: DataFrame, waiting: DataFrame, *, snapshot: int | None) -> Certificate:
    """Check a history: its ledger rows, all jobs that were ever read, and the jobs that waited at the last sync.

    ``snapshot`` is the number of ledger rows that had been read before the waiting jobs were read. With None no job can
    be reported as lost.
    """
    passes = _make_passes(leases, jobs, waiting, snapshot)
    totals = _count(*passes)
    violation_counts = {check: int(totals[check] or 0) for check in CHECKS}
    return Certificate(
        rows=totals["rows"],
        leases=totals["leases"],
        jobs=totals["jobs"],
        domains=totals["domains"],
        keys=totals["keys"],
        states={state: totals[f"is_{state}"] for state in STATES if totals[f"is_{state}"]},
        first=totals["first"],
        last=totals["last"],
        violation_counts=violation_counts,
        violations=_read_evidence(passes, violation_counts),
    )


Passes = tuple[DataFrame, DataFrame, DataFrame]  # over jobs, domains, keys


def _make_passes(leases: DataFrame, jobs: DataFrame, waiting: DataFrame, snapshot: int | None) -> Passes:
    spark = leases.sparkSession
    job_rows = query(spark, "audit_rows", leases=leases, jobs=jobs, waiting=waiting)
    literal = "NULL" if snapshot is None else f"{snapshot:d}L"
    checked_rows = query(spark, "audit_jobs", job_rows=job_rows, snapshot=literal)
    # A second pass over the jobs with a domain, which are usually few: all rows of a job have its domain, or none.
    domain_rows = query(spark, "audit_jobs", job_rows=job_rows.where("domain IS NOT NULL"), snapshot=literal)
    return (
        checked_rows,
        query(spark, "audit_domains", checked_rows=domain_rows, slack=f"{ARRIVAL_SLACK_SECONDS:d}"),
        query(spark, "audit_keys", leases=leases, jobs=jobs, waiting=waiting),
    )


def _count(by_job: DataFrame, by_domain: DataFrame, by_key: DataFrame) -> Row:
    """Return all counts in one row, by one Spark job."""

    def violations(checks: Mapping[str, str]) -> list[str]:
        return [f"count_if({check}) AS {check}" for check in checks]

    state_of_job = "CASE WHEN ending = 'purged' THEN 'purged' WHEN ends THEN state ELSE 'waiting' END"
    jobs = by_job.selectExpr(
        "count_if(is_row) AS rows",
        "count_if(is_lease) AS leases",
        "count_if(is_last) AS jobs",
        *(f"count_if(is_last AND {state_of_job} = '{state}') AS is_{state}" for state in STATES),
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
    "attempts": ("fence", "attempt", "last_attempt", "last_ending"),
    "states": ("fence", "ending", "state"),
    "accepted_twice": ("enqueued_at", "last_state", "last_ended_at"),
    "lost": ("ending", "state", "ended_at"),
    "domain_overlap": ("domain", "reserved_at", "domain_held_until", "last_job"),
    "domain_order": ("domain", "reserved_at", "last_job", "last_turn_until"),
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
