"""What does signing cost, from enqueue to the last ack, for no-op jobs?

Both sides enqueue the same batches with a client and drain them with a worker, in one child process each; one has
``signing = required``, the other ``off``. The ratio is one of processor time: other load changes it little.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.comparison import Comparison
from benchmarks.cpu_time import tree_seconds
from benchmarks.jobs import PAYLOAD, QUEUE, TYPE
from benchmarks.processes import run_timed
from holdfast import Holdfast, JobRequest, WorkerOptions
from holdfast.settings import read

JOBS = 20_000
ROUNDS = 5
SECRET = "correct horse battery staple"


def measure(folder: Path) -> Iterator[Comparison]:
    def cpu_seconds(mode: str) -> float:
        return run_timed("signing", mode, folder / f"{mode}.db")

    pairs = [(cpu_seconds("required"), cpu_seconds("off")) for _ in range(ROUNDS)]
    ours, other = (median(seconds) for seconds in zip(*pairs, strict=True))
    yield Comparison(
        question="SQLite: enqueue and drain with signing / without, no-op jobs, in processor time",
        ratio=other / ours,
        target=0.8,
        at_least=True,
        ours=f"{ours / JOBS * 1e6:.1f} µs/job",
        other=f"{other / JOBS * 1e6:.1f} µs/job",
    )


def main(mode: str, path: str) -> None:
    """Print the processor time of one round, of this process and its children."""
    app = Holdfast(f"sqlite:///{path}")
    app.use_settings(read(environ={"HOLDFAST_SIGNING": mode, "HOLDFAST_SIGNING_KEY": SECRET}))
    app.handler(TYPE, queue=QUEUE)(lambda _payload: None)
    before = tree_seconds(os.getpid())
    app.client.enqueue_many(JobRequest(type=TYPE, queue=QUEUE), [json.loads(PAYLOAD)] * JOBS)
    counts = app.worker(WorkerOptions(queues=(QUEUE,), processes=1, until_drained=True)).run()
    print(tree_seconds(os.getpid()) - before)
    assert counts["acked"] == JOBS, counts
    app.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
