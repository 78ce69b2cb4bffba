"""Jobs on Spark: run in bulk on executors, with per-record leases, retries and dead letters.

pyspark is imported here and nowhere else in the package.
"""

from holdfast.spark.execution.dataframe import run
from holdfast.spark.execution.engine import run_queue
from holdfast.spark.history.compaction import compact
from holdfast.spark.history.sync import History, audit_store, sync
from holdfast.spark.replay.replay import Replay, replay
from holdfast.spark.session import session

__all__ = ["History", "Replay", "audit_store", "compact", "replay", "run", "run_queue", "session", "sync"]
