"""The fires of a schedule as a frame that ``run`` takes."""

import sys
from datetime import UTC, datetime

import pytest
from pyspark import cloudpickle

from holdfast.cron import Schedule
from holdfast.errors import InvalidInput
from holdfast.spark import backfill_frame, run
from tests.spark.conftest import OPTIONS

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors cannot import the tests

HOURLY = Schedule(
    name="report", expression="0 * * * *", timezone="Europe/Berlin", type="report", payload={"kind": "daily"}
)
START, END = datetime(2027, 10, 30, 23, tzinfo=UTC), datetime(2027, 10, 31, 3, tzinfo=UTC)  # the repeated hour is in it


def test_a_frame_of_fires_runs_through_a_handler(spark, tmp_path):
    def report(row):
        return f"{row['fire']:%H:%M} {row['payload']}"

    fires = backfill_frame(spark, HOURLY, START, END)
    ok, dead = run(
        fires, report, key="fire", run="reports", url=f"sqlite:///{tmp_path}/jobs.db", options=OPTIONS, slots=1
    )
    assert dead.count() == 0
    rows = sorted((row.key, row.holdfast.result) for row in ok.collect())
    assert rows == [
        (f"cron:report:Europe/Berlin:{day}T{hour:02d}:00:00Z", f'"{hour:02d}:00 {{\\"kind\\":\\"daily\\"}}"')
        for day, hour in (("2027-10-30", 23), ("2027-10-31", 0), ("2027-10-31", 1), ("2027-10-31", 2))
    ]


def test_a_frame_is_bounded(spark):
    with pytest.raises(InvalidInput, match="at most 3 fires"):
        backfill_frame(spark, HOURLY, START, END, limit=3)
