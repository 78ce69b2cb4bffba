"""A history of any length without a store: Spark computes every row from its number.

Of ten jobs, seven succeed at once, two are retried first, and one is retried and released. Every twentieth job is in
one of a thousand domains, of which every second has offsets; every third job has an idempotency key, and every
hundredth waits after a retry and a release. No law is broken and no row is missing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from holdfast.spark.history.audit import Scope

START = 1_800_000_000_000_000  # microseconds since the epoch
STEP = 1_000  # microseconds between two ledger rows
ROWS_PER_TEN_JOBS = 14

_JOB = f"""
SELECT id, concat('job-', lpad(id, 12, '0')) AS job_id, 'generated' AS type, 'generated' AS queue,
       CASE WHEN id % 20 = 0 THEN concat('domain-', (id DIV 20) % 1000) END AS domain,
       CASE WHEN id % 40 = 0 THEN id END AS offset,
       CASE WHEN id % 3 = 0 THEN concat('key-', id) END AS idempotency_key,
       id % 100 = 7 AS waits,
       CASE WHEN id % 10 < 7 THEN 1 WHEN id % 10 < 9 THEN 2 ELSE 3 END AS endings,
       first, timestamp_micros({START} + first * {STEP} - 10000000) AS enqueued_at
  FROM (SELECT id, id DIV 10 * {ROWS_PER_TEN_JOBS} + id % 10 + greatest(id % 10 - 7, 0) AS first FROM {{numbers}})
"""
_LEASES = f"""
SELECT first + nth AS position, job_id, type, queue, domain, offset,
       CAST(CASE WHEN nth = 2 AND endings = 3 THEN 2 ELSE nth + 1 END AS INT) AS attempt,
       first + nth + 1 AS fence, concat('worker-', id % 16) AS worker, enqueued_at,
       enqueued_at AS available_at,
       timestamp_micros({START} + (first + nth) * {STEP}) AS reserved_at,
       timestamp_micros({START} + (first + nth) * {STEP} + 100) AS started_at,
       timestamp_micros({START} + (first + nth) * {STEP} + {STEP // 2}) AS ended_at,
       CASE WHEN nth = endings - 1 AND NOT waits THEN 'acked' WHEN nth = 1 THEN 'released' ELSE 'retried' END AS ending,
       CASE WHEN nth = endings - 1 AND NOT waits THEN 'done' ELSE 'ready' END AS state,
       '' AS detail, '' AS error
  FROM (SELECT *, explode(sequence(0, endings - 1)) AS nth FROM {{jobs}})
"""
_RECORDS = """
SELECT {rows} AS position, job_id, type, queue, CAST(NULL AS STRING) AS name, 0 AS priority, domain,
       offset, CAST(NULL AS STRING) AS limit_key, idempotency_key,
       CAST(NULL AS BIGINT) AS unique_for, CASE WHEN endings = 1 OR waits THEN 1 ELSE 2 END AS attempts,
       3 AS max_attempts, 3 AS max_crashes, enqueued_at AS created_at, CAST(NULL AS TIMESTAMP) AS run_at,
       CASE WHEN waits THEN 'ready' ELSE 'done' END AS state,
       CAST(NULL AS TIMESTAMP) AS dead_at, CAST(NULL AS STRING) AS dead_reason, CAST(NULL AS STRING) AS error,
       CAST(NULL AS STRING) AS fingerprint, CASE WHEN domain IS NOT NULL THEN id END AS arrival
  FROM {jobs}
"""


def generate_history(spark: SparkSession, rows: int) -> tuple[DataFrame, DataFrame, DataFrame, Scope]:
    """The arguments of ``audit``: leases, records, waiting jobs and their scope, with about ``rows`` ledger rows."""
    tens = round(rows / ROWS_PER_TEN_JOBS / 10) * 10  # a hundredth of all jobs waits
    jobs, position = tens * 10, tens * ROWS_PER_TEN_JOBS
    numbered = spark.sql(_JOB, numbers=spark.range(jobs))
    leases = spark.sql(_LEASES, jobs=numbered).selectExpr("*", "CAST(ended_at AS DATE) AS day")
    records = spark.sql(_RECORDS.replace("{rows}", f"{position:d}L"), jobs=numbered)
    records = records.selectExpr("*", "CAST(created_at AS DATE) AS day")
    scope = Scope(position=position, snapshot=position, jobs=jobs, waiting=jobs // 100)
    return leases, records, records.where("state = 'ready'"), scope
