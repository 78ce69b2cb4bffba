"""The public API for Spark: run jobs on executors, one lease, retry policy and dead letter for each record.

Only this package imports pyspark.
"""

from holdfast.errors import (
    InvalidInput,
    OutcomesTrimmed,
    RunError,
    SparkTaskFailed,
    SparkUnavailable,
    StoreError,
    TooManyDead,
    Unsupported,
)

try:
    from holdfast.spark.backfill import backfill_frame
    from holdfast.spark.execution.dataframe import run
    from holdfast.spark.execution.engine import run_queue
    from holdfast.spark.execution.progress import Progress
    from holdfast.spark.history.compaction import compact
    from holdfast.spark.history.reader import History
    from holdfast.spark.history.store_audit import audit_store
    from holdfast.spark.history.sync import sync
    from holdfast.spark.session import session
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in {"pandas", "pyarrow", "pyspark"}:
        raise
    raise ModuleNotFoundError(
        f"holdfast.spark needs the package {error.name}: pip install 'holdfast[spark-local]', "
        "or 'holdfast[spark]' beside an installed Spark",
        name=error.name,
    ) from error

__all__ = [
    "History",
    "InvalidInput",
    "OutcomesTrimmed",
    "Progress",
    "RunError",
    "SparkTaskFailed",
    "SparkUnavailable",
    "StoreError",
    "TooManyDead",
    "Unsupported",
    "audit_store",
    "backfill_frame",
    "compact",
    "run",
    "run_queue",
    "session",
    "sync",
]
