"""Two plain workers with one child process each, started together: ``python -m benchmarks.worker_pair pair URL KIND``.

Prints the seconds from the common start to the end of the last worker. Imports and connections do not count, because an
existing Spark session has done them, too.
"""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.handlers import make_handler
from benchmarks.jobs import QUEUE, TYPE
from holdfast import Holdfast, WorkerOptions

READY, START, DONE = "ready", "start", "done"  # the lines of the protocol between the pair and its workers


def pair(url: str, kind: str) -> None:
    """Start both workers at the same moment and print the seconds."""
    command = [sys.executable, "-m", "benchmarks.worker_pair", "one", url, kind]
    workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    pipes = [(worker.stdin, worker.stdout) for worker in workers]
    for _, stdout in pipes:
        assert stdout is not None
        assert stdout.readline().strip() == READY
    started = time.perf_counter()
    for stdin, _ in pipes:
        assert stdin is not None
        stdin.write(f"{START}\n")
        stdin.flush()
    for _, stdout in pipes:
        assert stdout is not None
        assert stdout.readline().strip() == DONE
    print(time.perf_counter() - started)
    for worker in workers:
        worker.communicate()


def one(url: str, kind: str) -> None:
    """Run one of the two workers, once the parent has sent ``START``."""
    app = Holdfast(url)
    app.handler(TYPE, queue=QUEUE)(make_handler(kind))
    worker = app.worker(WorkerOptions(queues=(QUEUE,), processes=1, until_drained=True))
    print(READY, flush=True)
    sys.stdin.readline()
    worker.run()
    print(DONE, flush=True)
    app.close()


if __name__ == "__main__":
    {"pair": pair, "one": one}[sys.argv[1]](*sys.argv[2:])
