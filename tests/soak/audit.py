"""One violation of each kind among very many rows that keep every law: the audit finds those, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.made_history import made
from holdfast.spark import session
from holdfast.spark.history.audit import CHECKS, Certificate, audit
from tests.spark.test_audit import GUILTY, PLANTED, PLANTED_JOBS, frames, job

# Jobs of planted rows that have not ended: they are in the store, so that nothing but what was planted is wrong.
WAITING = ("p1", "p3", "p6", "p7", "p9")


def needles(spark: SparkSession, rows: int, folder: Path | None = None) -> tuple[Certificate, dict[str, set[str]]]:
    """The certificate of a made history with the planted rows in its middle, and which jobs must be told of what."""
    *hay, snapshot = made(spark, rows)
    planted = [each for of_kind, _ in PLANTED.values() for each in of_kind]
    bad = frames(spark, planted, PLANTED_JOBS, [job(name, "ready") for name in WAITING], position=snapshot // 2)
    both = [one.unionByName(other) for one, other in zip(hay, bad, strict=True)]
    if folder is not None:
        for place, frame in enumerate(both):
            frame.write.parquet(f"{folder}/{place}")
        both = [spark.read.parquet(f"{folder}/{place}") for place in range(len(both))]
    wanted: dict[str, set[str]] = {check: set() for check in CHECKS}
    for name, (of_kind, checks) in PLANTED.items():
        for check in checks.split():
            wanted[check].add(GUILTY.get(name) or of_kind[0].job_id)
    return audit(*both, snapshot=snapshot + len(planted)), wanted


def check(certificate: Certificate, wanted: dict[str, set[str]]) -> None:
    """What was planted, all of it, and nothing else."""
    told: dict[str, set[str]] = {check: set() for check in CHECKS}
    for violation in certificate.violations:
        told[violation.check].add(violation.job_id)
    assert told == wanted, (told, wanted)
    assert Counter(certificate.violation_counts) == Counter({check: len(jobs) for check, jobs in wanted.items()})


def audits(folder: Path, rows: int) -> str:
    """By a session of its own, from Parquet."""
    spark = session("local[2,4]")
    try:
        certificate, wanted = needles(spark, rows, folder)
    finally:
        spark.stop()
    check(certificate, wanted)
    return f"one violation of each of {len(wanted)} kinds in {certificate.rows:,} ledger rows: all found, nothing else"
