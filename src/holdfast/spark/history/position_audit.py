"""Check that every position of the ledger has exactly one row. Runs on the Spark driver.

Spark counts rows and different positions in buckets. Only the rows of the first buckets that differ are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row

from holdfast.spark.history.certificate import MAX_EVIDENCE, Violation
from holdfast.spark.statements import query

BUCKET_POSITIONS = 32_768  # Spark's bitmap functions use this size
OUTSIDE, BEFORE = 0, -1  # the buckets of positions that are not between the first and the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionViolations:
    """The violations of the positions: their numbers by check, and the first of each."""

    counts: Mapping[str, int]
    violations: Sequence[Violation]


def count_rows(leases: DataFrame, first: int, position: int) -> DataFrame:
    """Return the number of rows and of different positions in each bucket."""
    literals = {"first": f"{first:d}L", "position": f"{position:d}L"}
    return query(leases.sparkSession, "audit_positions", leases=leases, **literals)


def find_violations(
    leases: DataFrame, buckets: Sequence[Row], first: int, position: int, *, rows_before: int
) -> PositionViolations:
    """Return the violations that the counts show. ``rows_before`` rows of positions before ``first`` must be left."""
    counted = {row["bucket"]: (row["rows"], row["positions"]) for row in buckets}
    outside, _ = counted.pop(OUTSIDE, (0, 0))
    before, _ = counted.pop(BEFORE, (0, 0))
    inside = sum(rows for rows, _ in counted.values())
    present = sum(positions for _, positions in counted.values())
    missing = position - first - present + max(0, rows_before - before)
    repeated = inside - present + outside + max(0, before - rows_before)
    violations: list[Violation] = []
    if before != rows_before:
        check = "missing_rows" if before < rows_before else "repeated_rows"
        violations.append(Violation(check=check, facts={"before": first, "wanted": rows_before, "got": before}))
    if missing or repeated:
        differing = _find_differing(counted, first, position)
        violations += _read_evidence(leases, differing, first, position, has_outside=outside > 0)
    return PositionViolations(
        counts={"missing_rows": missing, "repeated_rows": repeated}, violations=_first_of_each(violations)
    )


def _find_differing(counted: Mapping[int, tuple[int, int]], first: int, position: int) -> list[int]:
    """Return the first buckets in which a position is missing or is there twice. A bucket's number begins at 1."""
    differing: list[int] = []
    for bucket in range(first // BUCKET_POSITIONS + 1, (position - 1) // BUCKET_POSITIONS + 2):
        low, high = _range_of(bucket, first, position)
        if counted.get(bucket, (0, 0)) != (high - low, high - low):
            differing.append(bucket)
            if len(differing) == MAX_EVIDENCE:
                break
    return differing


def _range_of(bucket: int, first: int, position: int) -> tuple[int, int]:
    return max(first, (bucket - 1) * BUCKET_POSITIONS), min(position, bucket * BUCKET_POSITIONS)


def _read_evidence(
    leases: DataFrame, buckets: Sequence[int], first: int, position: int, *, has_outside: bool
) -> Iterator[Violation]:
    ranges = [_range_of(bucket, first, position) for bucket in buckets]
    conditions = [f"(position >= {low:d} AND position < {high:d})" for low, high in ranges]
    if has_outside:
        conditions.append(f"position IS NULL OR position < 0 OR position >= {position:d}")
    if not conditions:
        return
    rows = leases.where(" OR ".join(conditions)).select("position", "job_id", "fence")
    jobs: dict[int | None, list[Row]] = {}
    for row in rows.collect():
        jobs.setdefault(row["position"], []).append(row)
    for low, high in _join(ranges):
        yield from _find_gaps([place for place in range(low, high) if place not in jobs])
    for place, same in jobs.items():
        is_inside = place is not None and 0 <= place < position
        for row in sorted(same, key=lambda row: str(row["job_id"]))[1 if is_inside else 0 :]:
            yield Violation(
                check="repeated_rows", job_id=row["job_id"] or "", facts={"position": place, "fence": row["fence"]}
            )


def _join(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges, adjacent ones as one."""
    joined: list[tuple[int, int]] = []
    for low, high in ranges:
        if joined and joined[-1][1] == low:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def _find_gaps(missing: Sequence[int]) -> Iterator[Violation]:
    """Return one violation for each run of missing positions."""
    start = 0
    for number, place in enumerate(missing):
        if number + 1 == len(missing) or missing[number + 1] != place + 1:
            yield Violation(check="missing_rows", facts={"from": missing[start], "to": place})
            start = number + 1


def _first_of_each(violations: Sequence[Violation]) -> list[Violation]:
    by_check: dict[str, list[Violation]] = {}
    for violation in violations:
        by_check.setdefault(violation.check, []).append(violation)
    return [violation for found in by_check.values() for violation in found[:MAX_EVIDENCE]]
