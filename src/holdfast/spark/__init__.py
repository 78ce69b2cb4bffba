"""The public API for Spark: run jobs on executors, one lease, retry policy and dead letter for each record.

Only this package imports pyspark.
"""

from holdfast.spark.execution.dataframe import run
from holdfast.spark.execution.engine import run_queue
from holdfast.spark.execution.progress import Progress
from holdfast.spark.history.compaction import compact
from holdfast.spark.history.reader import History
from holdfast.spark.history.store_audit import audit_store
from holdfast.spark.history.sync import sync
from holdfast.spark.replay.replay import Replay, replay
from holdfast.spark.session import session

__all__ = ["History", "Progress", "Replay", "audit_store", "compact", "replay", "run", "run_queue", "session", "sync"]
