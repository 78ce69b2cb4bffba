"""The laws, proven on a whole history: what must never have happened, found by looking at every row.

Every law of a job is judged in one pass: its record and its rows are brought together by one shuffle, and all windows
share one sort. Domains and keys need passes of their own, over the rows that have one. All of it is counted in one
Spark job; evidence is fetched only if there is something to show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row

from holdfast.spark.statements import query

SHOWN = 10  # violations of one check that are told with their evidence
SLACK = 1  # seconds by which a job must have come earlier to count as the earlier one in its domain

# A check is a column of the query that makes it; beside it, what the certificate says if it finds nothing.
OF_JOBS: Mapping[str, str] = {
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
OF_DOMAINS: Mapping[str, str] = {
    "domain_overlap": "every domain ran one job at a time",
    "domain_order": "every domain kept its order",
}
OF_KEYS: Mapping[str, str] = {"dedupe": "no idempotency key stood for two jobs at a time"}
CHECKS: Mapping[str, str] = {**OF_JOBS, **OF_DOMAINS, **OF_KEYS}

STATES = ("done", "dead", "cancelled", "waiting", "purged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One row that must not be, and the facts that say so."""

    check: str
    job_id: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What was looked at and what was found; it holds if every check found nothing."""

    rows: int
    leases: int
    jobs: int
    domains: int
    keys: int
    states: Mapping[str, int]  # how many jobs stand where; "waiting" are ready or in flight
    first: int | None  # instants, in microseconds
    last: int | None
    found: Mapping[str, int]  # by check, in the order of CHECKS
    violations: Sequence[Violation]  # some of them

    @property
    def holds(self) -> bool:
        """Whether no law was broken."""
        return not any(self.found.values())


def audit(leases: DataFrame, jobs: DataFrame, waiting: DataFrame, *, snapshot: int | None) -> Certificate:
    """Judge a history: its ledger rows, the jobs ever seen, and those that waited at the last look into the store.

    ``snapshot`` is how many rows of the ledger had been read before that look; None if there was none, and then no job
    can be called lost.
    """
    passes = _passes(leases, jobs, waiting, snapshot)
    totals = _totals(*passes)
    found = {check: int(totals[check] or 0) for check in CHECKS}
    return Certificate(
        rows=totals["rows"],
        leases=totals["leases"],
        jobs=totals["jobs"],
        domains=totals["domains"],
        keys=totals["keys"],
        states={state: totals[f"is_{state}"] for state in STATES if totals[f"is_{state}"]},
        first=totals["first"],
        last=totals["last"],
        found=found,
        violations=_evidence(passes, found),
    )


Passes = tuple[DataFrame, DataFrame, DataFrame]  # of jobs, of domains, of keys


def _passes(leases: DataFrame, jobs: DataFrame, waiting: DataFrame, snapshot: int | None) -> Passes:
    spark = leases.sparkSession
    together = query(spark, "audit_rows", leases=leases, jobs=jobs, waiting=waiting)
    asked = "NULL" if snapshot is None else f"{snapshot:d}L"
    judged = query(spark, "audit_jobs", together=together, snapshot=asked)
    # Judged apart, because all rows of a job are in its domain or none is: mostly there are few of them.
    in_domains = query(spark, "audit_jobs", together=together.where("domain IS NOT NULL"), snapshot=asked)
    return (
        judged,
        query(spark, "audit_domains", judged=in_domains, slack=f"{SLACK:d}"),
        query(spark, "audit_keys", leases=leases, jobs=jobs, waiting=waiting),
    )


def _totals(judged: DataFrame, in_domains: DataFrame, keyed: DataFrame) -> Row:
    """Everything that is counted, in one row and one Spark job."""

    def found(checks: Mapping[str, str]) -> list[str]:
        return [f"count_if({check}) AS {check}" for check in checks]

    where = "CASE WHEN ending = 'purged' THEN 'purged' WHEN ends THEN state ELSE 'waiting' END"
    of_jobs = judged.selectExpr(
        "count_if(is_row) AS rows",
        "count_if(is_lease) AS leases",
        "count_if(is_last) AS jobs",
        *(f"count_if(is_last AND {where} = '{state}') AS is_{state}" for state in STATES),
        "unix_micros(min(coalesce(reserved_at, ended_at))) AS first",
        "unix_micros(max(ended_at)) AS last",
        *found(OF_JOBS),
    )
    of_domains = in_domains.selectExpr("count_if(is_first) AS domains", *found(OF_DOMAINS))
    of_keys = keyed.selectExpr("count_if(last_job IS NULL) AS keys", *found(OF_KEYS))
    [totals] = of_jobs.crossJoin(of_domains).crossJoin(of_keys).collect()
    return totals


_PLACES = (("position", "job_id"), ("position", "job_id"), ("job_id",))  # by pass: in which order violations are told
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


def _evidence(passes: Passes, found: Mapping[str, int]) -> list[Violation]:
    """The first of each check, with what it contradicts: one Spark job for each pass that has found something."""
    shown: list[Violation] = []
    for frame, checks, place in zip(passes, (OF_JOBS, OF_DOMAINS, OF_KEYS), _PLACES, strict=True):
        broken = [check for check in checks if found[check]]
        if not broken:
            continue
        facts = list(dict.fromkeys([*place, *(fact for check in broken for fact in _FACTS[check])]))
        named = ", ".join(f"CASE WHEN {check} THEN '{check}' END" for check in broken)
        nth = f"row_number() OVER (PARTITION BY check ORDER BY {', '.join(place)})"
        rows = (
            # Not filtered by "this or that check" first: the optimizer would take minutes to take that apart.
            frame.selectExpr(f"explode(array_compact(array({named}))) AS check", *(_plain(fact) for fact in facts))
            .selectExpr("*", f"{nth} AS nth")
            .where(f"nth <= {SHOWN:d}")
            .collect()
        )
        for check in broken:
            of_check = sorted((row for row in rows if row["check"] == check), key=lambda row: int(row["nth"]))
            shown += [Violation(check=check, job_id=row["job_id"], facts=_known(row, check)) for row in of_check]
    return shown


def _plain(name: str) -> str:
    """Instants as microseconds: Spark would give them in whatever time zone this process thinks it is."""
    return f"unix_micros({name}) AS {name}" if name.endswith(("_at", "_until")) else name


def _known(row: Row, check: str) -> dict[str, Any]:
    return {name: row[name] for name in _FACTS[check] if row[name] is not None}
