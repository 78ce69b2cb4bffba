"""What do the log and the metrics of a worker cost, with the level ``warning`` and as JSON lines at ``info``?

Both sides are the same worker in a child process; one has the log observer and a configured log, and maybe the metrics
for Prometheus, the other has no observers. The ratio is one of processor time, of the worker and its children: other
load on the machine changes it little, and on a machine whose cores are busy it is the ratio of the throughputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import holdfast
from benchmarks.comparison import Comparison
from benchmarks.jobs import fill
from benchmarks.processes import run_timed

ROUNDS = 5
NOOP_JOBS = 40_000
CPU_JOBS = 3_000  # of 1 ms


def measure(folder: Path) -> Iterator[Comparison]:
    yield _compare(folder, "noop", "warning", "logs at warning, no-op jobs", jobs=NOOP_JOBS, target=0.95)
    yield _compare(folder, "noop", "metrics", "metrics and logs at warning, no-op jobs", jobs=NOOP_JOBS, target=0.95)
    yield _compare(folder, "cpu", "json", "JSON logs at info, jobs of 1 ms", jobs=CPU_JOBS, target=0.90)
    yield _compare(folder, "noop", "json", "JSON logs at info, no-op jobs", jobs=NOOP_JOBS, target=0.90)


def _compare(folder: Path, kind: str, log: str, name: str, *, jobs: int, target: float) -> Comparison:
    url = f"sqlite:///{folder}/{kind}-{log}.db"
    lines = folder / f"{kind}-{log}.log"
    store = holdfast.connect(url)

    def cpu_seconds(log: str) -> float:
        fill(store, jobs)
        return run_timed("logged_worker", "drain", url, kind, log, lines)

    pairs = [(cpu_seconds(log), cpu_seconds("none")) for _ in range(ROUNDS)]
    ours, other = (median(seconds) for seconds in zip(*pairs, strict=True))
    logged = lines.read_bytes().count(b"\n")
    assert (logged > 0) == (log == "json"), logged
    return Comparison(
        question=f"worker with {name} / without, in processor time",
        ratio=other / ours,
        target=target,
        at_least=True,
        ours=f"{ours / jobs * 1e6:.1f} µs/job",
        other=f"{other / jobs * 1e6:.1f} µs/job",
    )
