"""One violation of each kind among millions of correct rows: the audit reports exactly these violations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.generated_history import generate_history
from holdfast.spark import session
from holdfast.spark.history.audit import CHECKS, Certificate, audit
from tests.spark.test_audit import GUILTY, PLANTED, PLANTED_JOBS, frames, job

# Planted jobs that have not ended. They are in the store, so that only the planted violation is wrong with them.
WAITING = ("p1", "p3", "p6", "p7", "p9")


def audit_planted(
    spark: SparkSession, rows: int, folder: Path | None = None
) -> tuple[Certificate, dict[str, set[str]]]:
    """Audit a generated history with the planted rows in its middle; return the certificate and the expected jobs."""
    *generated, snapshot = generate_history(spark, rows)
    planted = [row for violating_rows, _ in PLANTED.values() for row in violating_rows]
    waiting = [job(name, "ready") for name in WAITING]
    violating = frames(spark, planted, PLANTED_JOBS, waiting, position=snapshot // 2)
    combined = [one.unionByName(other) for one, other in zip(generated, violating, strict=True)]
    if folder is not None:
        for place, frame in enumerate(combined):
            frame.write.parquet(f"{folder}/{place}")
        combined = [spark.read.parquet(f"{folder}/{place}") for place in range(len(combined))]
    expected: dict[str, set[str]] = {check: set() for check in CHECKS}
    for name, (violating_rows, checks) in PLANTED.items():
        for check in checks.split():
            expected[check].add(GUILTY.get(name) or violating_rows[0].job_id)
    return audit(*combined, snapshot=snapshot + len(planted)), expected


def check_certificate(certificate: Certificate, expected: dict[str, set[str]]) -> None:
    """Check that the certificate reports every planted violation and no other."""
    reported: dict[str, set[str]] = {check: set() for check in CHECKS}
    for violation in certificate.violations:
        reported[violation.check].add(violation.job_id)
    assert reported == expected, (reported, expected)
    assert Counter(certificate.violation_counts) == Counter({check: len(jobs) for check, jobs in expected.items()})


def run_planted_violations(folder: Path, rows: int) -> str:
    """Audit from Parquet in a new Spark session."""
    spark = session("local[2,4]")
    try:
        certificate, expected = audit_planted(spark, rows, folder)
    finally:
        spark.stop()
    check_certificate(certificate, expected)
    return f"one violation of each of {len(expected)} kinds in {certificate.rows:,} ledger rows: all found, no others"
