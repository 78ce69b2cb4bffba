"""A stream becomes jobs: each row exactly once, even if the query is stopped and started again."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast import connect
from holdfast.spark import session


def write_readings(folder: Path, name: str, numbers: range) -> None:
    """Write a file of sensor readings."""
    lines = [json.dumps({"sensor": f"s{number % 7}", "number": number}) for number in numbers]
    (folder / name).write_text("\n".join(lines))


def enqueue_new_readings(url: str, folder: Path) -> None:
    """Write the readings that are new since the last call as jobs; Spark's checkpoint stores the position."""
    readings = session().readStream.schema("sensor string, number long").json(str(folder / "in"))
    query = (
        readings.writeStream.format("holdfast")
        .option("url", url)
        .option("queue", "readings")
        .option("type", "reading.check")
        .option("domain", "sensor")  # the readings of one sensor run one at a time, in order
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


with TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "in").mkdir()
    url = f"sqlite:///{folder / 'jobs.db'}"

    write_readings(folder / "in", "monday.json", range(100))
    enqueue_new_readings(url, folder)
    write_readings(folder / "in", "tuesday.json", range(100, 150))
    enqueue_new_readings(url, folder)
    enqueue_new_readings(url, folder)  # finds no new readings

    with connect(url) as store:
        [count] = store.counts()
        print(f"{count.ready} jobs in {count.queue}")
        assert count.ready == 150
