"""Two plain workers of one child process each, started together: ``python -m benchmarks.contender_pair pair URL KIND``.

Prints the seconds from the start of both to the end of the last; what it takes to import and to connect is not counted,
because a Spark session that is there has done that, too.
"""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.handlers import handler
from benchmarks.jobs import QUEUE, TYPE
from holdfast.app import Holdfast
from holdfast.worker.options import WorkerOptions

READY = "ready"


def pair(url: str, kind: str) -> None:
    """Both, at the same moment."""
    program = [sys.executable, "-m", "benchmarks.contender_pair", "one", url, kind]
    workers = [subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    pipes = [(worker.stdin, worker.stdout) for worker in workers]
    for _, out in pipes:
        assert out is not None
        assert out.readline().strip() == READY
    started = time.perf_counter()
    for to, _ in pipes:
        assert to is not None
        to.write("go\n")
        to.flush()
    for _, out in pipes:
        assert out is not None
        assert out.readline().strip() == "done"
    print(time.perf_counter() - started)
    for worker in workers:
        worker.communicate()


def one(url: str, kind: str) -> None:
    """One of them."""
    app = Holdfast(url)
    app.handler(TYPE, queue=QUEUE)(handler(kind))
    worker = app.worker(WorkerOptions(queues=(QUEUE,), processes=1, until_drained=True))
    print(READY, flush=True)
    sys.stdin.readline()
    worker.run()
    print("done", flush=True)
    app.close()


if __name__ == "__main__":
    {"pair": pair, "one": one}[sys.argv[1]](*sys.argv[2:])
