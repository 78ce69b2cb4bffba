"""A Spark driver whose runs are stopped by signals. The only row of a run waits for a file in FOLDER.

    interrupted.py URL FOLDER

The program prints what each of the first two runs raised, and does not catch what the third one raises.
"""

import signal
import sys
from datetime import timedelta
from pathlib import Path

from holdfast.spark import run, session
from holdfast.worker.options import WorkerOptions
from tests.spark.clusters import LEAN
from tests.spark.programs.patient import wait_for

OPTIONS = WorkerOptions(drain=None, grace=timedelta(seconds=2))


def main(url, folder):
    spark = session("local[2]", **LEAN)
    signal.signal(signal.SIGTERM, _never_called)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for name in ("first", "second"):
        try:
            stoppable(spark, url, folder, name)
        except (KeyboardInterrupt, SystemExit) as error:
            print(name, type(error).__name__, error)
    print("restored", before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)])
    stoppable(spark, url, folder, "third")


def stoppable(spark, url, folder, name):
    rows = spark.createDataFrame([(str(folder / name),)], "path string")
    run(rows, lambda row: wait_for(row["path"]), key="path", url=url, run=name, slots=1, options=OPTIONS)


def _never_called(*_):
    raise AssertionError("a signal reached the handler of the user during a run")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
