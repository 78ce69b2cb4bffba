"""Jobs on Spark: run in bulk on executors, with per-record leases, retries and dead letters.

pyspark is imported here and nowhere else in the package.
"""

from holdfast.spark.compaction import compact
from holdfast.spark.engine import run_queue
from holdfast.spark.pipelines import History, audit_store, sync
from holdfast.spark.resend import Replay, replay
from holdfast.spark.run import run
from holdfast.spark.session import session

__all__ = ["History", "Replay", "audit_store", "compact", "replay", "run", "run_queue", "session", "sync"]
