"""The worker process of ``holdfast bench``: ``python -m holdfast.cli.benchmark_worker``.

The parameters come from stdin and not from the command line, because a URL may contain a password.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from collections.abc import Callable
from dataclasses import replace

from holdfast.app import Holdfast
from holdfast.clock import monotonic
from holdfast.settings import SigningMode
from holdfast.worker.options import WorkerOptions

NOOP_TYPE, REPORT_START_TYPE = "bench.noop", "bench.report_start"
WORKER_NAME = "bench"
START_TIME = struct.Struct("d")  # what a handler writes to the pipe: the monotonic clock in seconds


def noop(_payload: object) -> None:
    """Do nothing."""


def report_start_to(pipe: int) -> Callable[[object], None]:
    """A handler that writes its start time to a pipe; the monotonic clock is shared by all processes of a machine."""

    def report_start(_payload: object) -> None:
        os.write(pipe, START_TIME.pack(monotonic()))

    return report_start


def main() -> None:
    """Run a worker until the queue is drained or the seconds are over; with a pipe, until a signal arrives."""
    order = json.load(sys.stdin)
    app = Holdfast(order["url"], space=order["space"])
    app.use_settings(replace(app.settings, signing=SigningMode.OFF))  # the jobs of the benchmark are not signed
    pipe = order.get("pipe")
    app.handler(NOOP_TYPE, queue=order["queue"])(noop)
    if pipe is not None:
        app.handler(REPORT_START_TYPE, queue=order["queue"])(report_start_to(pipe))
    options = WorkerOptions(
        queues=(order["queue"],), processes=order["processes"], until_drained=pipe is None, name=WORKER_NAME
    )
    worker = app.worker(options)
    if pipe is None:
        # An interval timer and not a thread: the worker forks first, and children do not inherit timers.
        signal.signal(signal.SIGALRM, lambda *_: worker.stop())
        signal.setitimer(signal.ITIMER_REAL, order["seconds"])
    worker.run()
    signal.setitimer(signal.ITIMER_REAL, 0)  # an alarm after the worker's end would kill the process
    app.close()


if __name__ == "__main__":
    main()
