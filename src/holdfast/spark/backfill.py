"""The fires of a schedule as a DataFrame, for a backfill that is too large for one worker.

    fires = backfill_frame(spark, schedule, start, end)
    ok, dead = run(fires, make_report, key="fire", run="reports-2026", url="postgresql://...")

``spark.run`` makes one job of each row. These are jobs of the run, and not jobs of the schedule: a fire that has
happened already is run again, unless the named run has ended its row.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from holdfast.clock import to_datetime
from holdfast.cron.schedule import Schedule
from holdfast.cron.schedules import find_fires
from holdfast.wire.codec import JSON

MAX_FIRES = 50_000  # of one frame, unless the caller sets another limit: they are listed on the Spark driver

_SCHEMA = t.StructType(
    [
        t.StructField("schedule", t.StringType(), nullable=False),
        t.StructField("fire", t.TimestampType(), nullable=False),
        t.StructField("key", t.StringType(), nullable=False),
        t.StructField("payload", t.StringType(), nullable=False),
    ]
)


def backfill_frame(
    spark: SparkSession, schedule: Schedule, start: datetime, end: datetime, *, limit: int = MAX_FIRES
) -> DataFrame:
    """Return one row for each fire of a schedule from ``start`` on, before ``end``; two adjacent ranges share none.

    The columns are ``schedule`` (its name), ``fire`` (a timestamp), ``key`` (the idempotency key of the fire) and
    ``payload`` (that of the schedule, as JSON text). ``app.schedules.get(name).schedule`` returns a stored schedule.
    Raises ``InvalidInput`` for more than ``limit`` fires.
    """
    payload = JSON.encode(schedule.payload).decode()
    fires = [to_datetime(fire) for fire in find_fires(schedule, start, end, limit=limit)]
    rows = [(schedule.name, fire, schedule.fire_key(fire), payload) for fire in fires]
    return spark.createDataFrame(rows, _SCHEMA)
