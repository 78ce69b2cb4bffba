"""The columns that users see, pinned: their names, types, order and nullability."""

import pyarrow as pa
import pytest

from holdfast.model.columns import JOB_COLUMNS, LEDGER_COLUMNS
from holdfast.spark.column_schemas import ddl, job_fields, ledger_fields
from holdfast.spark.datasource import jobs_table, ledger_table
from holdfast.spark.execution import outcomes, row_outcomes
from holdfast.spark.history import schemas

JOBS = (
    "id string, type string, queue string, state string, payload binary, priority int, run_at timestamp, "
    "requested_run_at timestamp, timeout interval day to second, created_at timestamp, attempts int, max_attempts int, "
    "crashes int, max_crashes int, idempotency_key string, unique_for bigint, domain string, offset bigint, "
    "limit_key string, name string, meta string, webhook string, signature string, last_error string, "
    "failed_at timestamp, dead_reason string, dead_at timestamp, result binary"
)
LEDGER = (
    "job_id string, type string, queue string, domain string, offset bigint, attempt int, fence bigint, worker string, "
    "enqueued_at timestamp, available_at timestamp, reserved_at timestamp, started_at timestamp, ended_at timestamp, "
    "ending string, state string, detail string, error string"
)
OUTCOMES = (
    "job_id string not null, type string not null, queue string not null, attempt int not null, fence bigint not null, "
    "slot int not null, executor string not null, reserved_at timestamp, started_at timestamp, "
    "ended_at timestamp not null, ending string not null, state string, error_class string, error string"
)
ROW_OUTCOMES = "job_key string, result string, attempts int, error string, reason string, state string, job_id string"
HISTORY_JOBS = (
    "position bigint, job_id string, type string, queue string, name string, priority int, domain string, "
    "offset bigint, limit_key string, idempotency_key string, unique_for bigint, attempts int, max_attempts int, "
    "max_crashes int, created_at timestamp, run_at timestamp, state string, dead_at timestamp, dead_reason string, "
    "error string, fingerprint string, arrival bigint, day date"
)
HISTORY_PAYLOADS = (
    "position bigint, job_id string, payload binary, meta string, timeout bigint, webhook string, day date"
)
HISTORY_HEALTH = (
    "queue string, type string, minute timestamp, arrivals bigint, leases bigint, acked bigint, retried bigint, "
    "failed bigint, released bigint, expired bigint, cancelled bigint, dead bigint, wait_p50 double, wait_p95 double, "
    "wait_p99 double, run_p50 double, run_p95 double, run_p99 double, day date"
)
HISTORY_FAILURES = (
    "fingerprint string, type string, reason string, error string, dead bigint, first_at timestamp, last_at timestamp, "
    "queues array<string>, forgotten bigint, day date"
)


@pytest.mark.parametrize(
    ("schema", "pinned"),
    [
        (jobs_table.SCHEMA, JOBS),
        (ledger_table.SCHEMA, LEDGER),
        (outcomes.SCHEMA, OUTCOMES),
        (row_outcomes.SCHEMA, ROW_OUTCOMES),
        (schemas.LEASES, f"position bigint, {LEDGER}, day date"),
        (schemas.JOBS, HISTORY_JOBS),
        (schemas.PAYLOADS, HISTORY_PAYLOADS),
        (schemas.HEALTH, HISTORY_HEALTH),
        (schemas.FAILURES, HISTORY_FAILURES),
    ],
    ids=["jobs", "ledger", "outcomes", "row outcomes", "leases", "history", "payloads", "health", "failures"],
)
def test_the_columns_of_a_table_are_pinned(schema, pinned):
    assert ddl(schema).replace("`", "") == pinned


def test_every_column_of_a_job_and_of_a_ledger_row_has_an_arrow_type():
    assert [field.name for field in job_fields()] == [column.name for column in JOB_COLUMNS]
    assert [field.name for field in ledger_fields()] == [column.name for column in LEDGER_COLUMNS]
    assert sorted(jobs_table.SCHEMA.names) == sorted(column.name for column in JOB_COLUMNS)
    assert job_fields("offset")[0].type == pa.int64()
