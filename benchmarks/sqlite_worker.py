"""What a worker with its processes costs beside the bare driver on SQLite, and how both compare with Huey on SQLite.

Each side runs in a process of its own. Huey keeps its file as durable as it can (``fsync=True``); it removes a task
before running it and keeps nothing of one that returns None, so it writes less than is written here for every job.
"""

from __future__ import annotations

import importlib.util
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import holdfast
from benchmarks.contender import huey_at, huey_task
from benchmarks.jobs import PAYLOAD, fill, make
from benchmarks.measure import Answer, latency, throughput
from benchmarks.sides import listener, seconds, until_start

JOBS = 20_000
ROUNDS = 5
HUEY_ROUNDS = 2  # a round of its takes long, and its time is steady
K = 1000  # the driver loop at its quickest
SAMPLES = 200
PAUSE = (0.05, 0.15)  # seconds between two samples, so that everybody is idle again
POLLING = 0.005  # seconds, for Huey: as often as the SQLite driver looks for commits of other processes


def answers(folder: Path) -> Iterator[Answer]:
    for processes in (1, 2):
        yield _drain_beside_the_loop(folder / f"drain{processes}.db", processes)
    if importlib.util.find_spec("huey") is None:
        raise SystemExit("benchmarks: Huey is not installed, nothing to compare with; `python3 run bench` installs it")
    yield _drain_beside_huey(folder)
    yield from _starts(folder)


# Throughput -------------------------------------------------------------------------------------------------


def _drain_beside_the_loop(path: Path, processes: int) -> Answer:
    store = holdfast.connect(f"sqlite:///{path}")

    def ours() -> float:
        fill(store, JOBS)
        return seconds("contender", "worker-drain", f"sqlite:///{path}", processes)

    def other() -> float:
        fill(store, JOBS)
        return seconds("contender", "loop-drain", f"sqlite:///{path}", K)

    return throughput(
        f"SQLite: worker with {processes} process{'es' if processes > 1 else ''} / driver loop, no-op jobs",
        jobs=JOBS,
        rounds=ROUNDS,
        ours=ours,
        other=other,
        wanted=0.3,
    )


def _drain_beside_huey(folder: Path) -> Answer:
    path, peer = folder / "ours.db", folder / "huey.db"
    store = holdfast.connect(f"sqlite:///{path}")

    def ours() -> float:
        fill(store, JOBS)
        return seconds("contender", "worker-drain", f"sqlite:///{path}", 2)

    def other() -> float:
        _fill_huey(peer, JOBS)
        return seconds("contender", "huey-drain", peer, JOBS)

    return throughput(
        "SQLite: worker with 2 processes / Huey with 2 workers, no-op jobs",
        jobs=JOBS,
        rounds=HUEY_ROUNDS,
        ours=ours,
        other=other,
        wanted=8,
    )


def _fill_huey(path: Path, count: int) -> None:
    queue = huey_at(path, durable=False)
    task = huey_task(queue, _noop)
    for _ in range(count):
        task(PAYLOAD)
    queue.storage.close()


def _noop(_payload: object) -> None:
    """The consumer has the real one; here it is only called to be enqueued."""


# Latency ----------------------------------------------------------------------------------------------------


def _starts(folder: Path) -> Iterator[Answer]:
    """From before the call of enqueue to the first line of the handler, one job at a time, the sides in turn."""
    path, usual, eager = (folder / f"{name}-idle.db" for name in ("ours", "huey", "eager"))
    store = holdfast.connect(f"sqlite:///{path}")
    [first, second] = (huey_task(huey_at(peer), _noop) for peer in (usual, eager))
    with ExitStack() as stack:
        ours, _ = stack.enter_context(listener("contender", "worker-listen", f"sqlite:///{path}"))
        huey, _ = stack.enter_context(listener("contender", "huey-listen", usual))
        polling, _ = stack.enter_context(listener("contender", "huey-listen", eager, POLLING))
        sides: list[tuple[Callable[[], object], int, list[float]]] = [
            (lambda: store.enqueue(make(1)), ours, []),
            (lambda: first(PAYLOAD), huey, []),
            (lambda: second(PAYLOAD), polling, []),
        ]
        dice = random.Random(1)
        for enqueue, pipe, _ in sides:  # the first one waits for the process to come up
            until_start(enqueue, pipe)
        for _ in range(SAMPLES):
            for enqueue, pipe, taken in sides:
                time.sleep(dice.uniform(*PAUSE))
                taken.append(until_start(enqueue, pipe))
    mine, theirs, hurried = (taken for _, _, taken in sides)
    question = "SQLite: enqueue to start in an idle system, worker / Huey"
    yield latency(question, ours=mine, other=theirs, wanted=1.0, share=0.5)
    yield latency(f"{question} polling every {POLLING * 1000:.0f} ms", ours=mine, other=hurried, wanted=1.0, share=0.5)
