"""A Spark driver under ``spark-submit``. The handler is sent by value: executors have no module of the tests.

killed.py URL PATH
"""

import sys
import time
from pathlib import Path

from holdfast.app import Holdfast
from holdfast.spark import run_queue, session
from holdfast.worker.options import WorkerOptions

url, path = sys.argv[1:]
app = Holdfast(url)


@app.handler("wait", queue="killed")
def wait(_):
    while not Path(path).exists():
        time.sleep(0.02)


run_queue(app, spark=session(), slots=1, options=WorkerOptions(drain=None))
