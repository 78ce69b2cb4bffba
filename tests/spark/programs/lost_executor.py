"""A Spark driver that reads the result of ``run`` after one of its two executors was killed.

    lost_executor.py MASTER URL FOLDER

The program creates FOLDER/returned when ``run`` has returned, and continues when FOLDER/killed exists.
"""

import json
import sys
import time
from pathlib import Path

from holdfast.spark import run, session
from tests.spark.clusters import LEAN, TIMEOUT_SECONDS

ROWS = 400


def main(master, url, folder):
    spark = session(master, **(LEAN | {"spark.pyspark.python": sys.executable}))
    rows = spark.range(0, ROWS, 1, 4)
    ok, dead = run(rows, _fail_some, key="id", url=url, run="lost", max_attempts=1, slots=2)
    (folder / "returned").touch()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (folder / "killed").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    print(json.dumps([ok.count(), dead.count()]))
    spark.stop()


def _fail_some(row):
    if row["id"] % 100 == 0:
        raise ValueError("one in a hundred")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
