"""A stream becomes jobs: each row once, however often the query is stopped and started again."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import holdfast
from holdfast.spark import session


def arrive(folder: Path, name: str, numbers: range) -> None:
    """A file of sensor readings comes in."""
    lines = [json.dumps({"sensor": f"s{number % 7}", "number": number}) for number in numbers]
    (folder / name).write_text("\n".join(lines))


def read_on(url: str, folder: Path) -> None:
    """Write what has come since the last time as jobs; the checkpoint knows where that was."""
    readings = session().readStream.schema("sensor string, number long").json(str(folder / "in"))
    query = (
        readings.writeStream.format("holdfast")
        .option("url", url)
        .option("queue", "readings")
        .option("type", "reading.check")
        .option("domain", "sensor")  # the readings of a sensor are checked one after the other
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


with TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "in").mkdir()
    url = f"sqlite:///{folder / 'jobs.db'}"

    arrive(folder / "in", "monday.json", range(100))
    read_on(url, folder)
    arrive(folder / "in", "tuesday.json", range(100, 150))
    read_on(url, folder)
    read_on(url, folder)  # nothing new

    with holdfast.connect(url) as store:
        [count] = store.counts()
        print(f"{count.ready} jobs in {count.queue}")
        assert count.ready == 150
