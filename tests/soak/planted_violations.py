"""Violations of every kind among millions of correct rows: the audit reports exactly these violations."""

from __future__ import annotations

import time
from pathlib import Path

from holdfast.spark import session
from holdfast.spark.history.audit import audit
from tests.spark import planted_violations as planted

SMALL_SHARE = 10  # the time is compared with that of a history of a tenth of the rows
MAX_GROWTH = 12


def run_planted_violations(folder: Path, rows: int) -> str:
    """Audit from Parquet in a new Spark session, and compare the time with that of a tenth of the rows."""
    spark = session("local[2,4]")
    seconds: list[float] = []
    try:
        for count in (rows // SMALL_SHARE, rows):
            frames, scope = planted.plant(spark, count)
            for place, frame in enumerate(frames):
                frame.write.parquet(f"{folder}/{count}/{place}")
            stored = [spark.read.parquet(f"{folder}/{count}/{place}") for place in range(len(frames))]
            started = time.monotonic()
            certificate = audit(*stored, scope=scope)
            seconds.append(time.monotonic() - started)
            planted.check_certificate(certificate)
    finally:
        spark.stop()
    small, large = seconds
    assert large <= MAX_GROWTH * small, f"{large:.1f} s for {rows:,} rows, {small:.1f} s for a tenth of them"
    return (
        f"{len(planted.PLANTED)} planted violations in {certificate.rows:,} ledger rows: all found, no others; "
        f"{large:.1f} s, {large / small:.1f} times as long as a tenth of the rows"
    )
