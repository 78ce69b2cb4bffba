"""A worker that drains a queue: ``python -m benchmarks.logged_worker drain URL KIND LOG FILE``.

Prints the seconds of processor time that the worker and its child processes used.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.cpu_time import tree_seconds
from benchmarks.handlers import make_handler
from benchmarks.jobs import QUEUE, TYPE
from holdfast import Holdfast, Worker, WorkerOptions
from holdfast.observability import LogObserver
from holdfast.observability.log_output import configure_logging
from holdfast.observability.prometheus import PrometheusMetrics
from holdfast.settings import read

PROCESSES = 2


def drain(url: str, kind: str, log: str, file: str) -> None:
    """Drain the queue; ``log`` is ``none``, ``warning`` (text) or ``json`` (every event), appended to a file.

    ``metrics`` is ``warning`` with the metrics for Prometheus.
    """
    app = Holdfast(url, metrics=PrometheusMetrics() if log == "metrics" else None)
    app.handler(TYPE, queue=QUEUE)(make_handler(kind))
    options = WorkerOptions(queues=(QUEUE,), processes=PROCESSES, until_drained=True)
    with Path(file).open("a", encoding="utf-8") as stream:
        if log != "none":
            given = {"log": "json", "log_level": "info"} if log == "json" else {"log_level": "warning"}
            configure_logging(read(given, environ={}), stream=stream)
        observers = [] if log == "none" else [LogObserver()]
        worker = Worker(app.driver, options, catalogue=app.catalogue, observers=observers)
        before = tree_seconds(os.getpid())
        worker.run()
        print(tree_seconds(os.getpid()) - before)
    app.close()


if __name__ == "__main__":
    {"drain": drain}[sys.argv[1]](*sys.argv[2:])
