"""The result of an audit: what was checked, and the violations of each check. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.spark.history.manifest import CommitMark

MAX_EVIDENCE = 10  # violations of one check that the certificate shows

# The name of a check, and what the certificate says if there is no violation. The checks of jobs, domains and keys are
# columns of their queries.
FILE_CHECKS: Mapping[str, str] = {
    "files": "every file is as it was written",
    "commits": "every commit is the one that later commits name",
}
ROW_CHECKS: Mapping[str, str] = {
    "missing_rows": "no ledger row is missing",
    "repeated_rows": "no ledger row is there twice",
    "table_rows": "every table has as many rows as were written",
}
JOB_CHECKS: Mapping[str, str] = {
    "overlap": "no two leases of a job were valid at the same time",
    "fence_fell": "the fences of every job only grew",
    "ended_twice": "no lease ended twice",
    "acked_twice": "no job was acked twice",
    "after_end": "no job ran after its end",
    "max_attempts": "no job ran more often than it may",
    "attempts": "the attempts of every job count from 1 without a hole",
    "states": "every ending left the state that belongs to it",
    "accepted_twice": "no id was accepted twice",
    "records": "every job is as its last ledger row left it",
    "lost": "every job seen is done, dead, cancelled or waiting",
}
DOMAIN_CHECKS: Mapping[str, str] = {
    "domain_overlap": "every domain ran one job at a time",
    "domain_order": "every domain kept its order",
    "domain_past": "no offset of a domain was acked twice",
}
KEY_CHECKS: Mapping[str, str] = {"dedupe": "no idempotency key belonged to two jobs at a time"}
CHECKS: Mapping[str, str] = {**FILE_CHECKS, **ROW_CHECKS, **JOB_CHECKS, **DOMAIN_CHECKS, **KEY_CHECKS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One thing that must not be, and the facts that prove it. ``job_id`` is empty if no single job is concerned."""

    check: str
    job_id: str = ""
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What was checked, and the violations of each check."""

    rows: int = 0
    leases: int = 0
    jobs: int = 0
    domains: int = 0
    keys: int = 0
    states: Mapping[str, int]  # jobs by state; "waiting" is ready or in flight
    first: int | None = None  # the first and the last instant, in microseconds
    last: int | None = None
    first_position: int = 0  # from here on every ledger row was checked
    position: int = 0  # up to here, exclusive
    trimmed: int | None = 0  # ledger rows that the store has removed; None if it removed some and does not count them
    commit: CommitMark | None = None  # of the history; None for the audit of a store
    violation_counts: Mapping[str, int]  # by check that was made, in the order of CHECKS
    violations: Sequence[Violation]  # at most MAX_EVIDENCE of each check

    @property
    def holds(self) -> bool:
        """Whether there were ledger rows to check, and no check found a violation."""
        return self.rows > 0 and not any(self.violation_counts.values())

    @property
    def verdict(self) -> str:
        """The result in a few words."""
        count = sum(self.violation_counts.values())
        if count:
            return f"{count:,} violation{'s' * (count != 1)}"
        return "Every law held" if self.rows else "Nothing was checked: there are no ledger rows"
