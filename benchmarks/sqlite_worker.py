"""How much does a worker cost on top of the driver on SQLite, and how does it compare with Huey?

Each side runs in a child process. Huey's file is as durable as Huey allows (``fsync=True``). Huey removes a task before
it runs it and stores nothing for a task that returns None, so Huey writes less per job than Holdfast does.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import holdfast
from benchmarks import peer_huey
from benchmarks.comparison import Comparison, compare_latency, compare_single_calls, compare_throughput
from benchmarks.jobs import fill, make_records
from benchmarks.processes import listener, run_timed, sample_start_latency

JOBS = 20_000
ROUNDS = 5
HUEY_ROUNDS = 2  # a round takes long, and its time varies little
LOOP_BATCH = 1000  # the fastest of the driver loop
SINGLE_CALLS = 1000  # our log of 4000 pages is copied into the file once, Huey's of 1000 pages twice
SINGLE_ROUNDS = 11
SAMPLES = 200
HUEY_POLL_SECONDS = 0.005  # as often as the SQLite driver checks for commits of other processes


def measure(folder: Path) -> Iterator[Comparison]:
    for processes in (1, 2):
        yield _compare_with_loop(folder / f"drain{processes}.db", processes)
    if importlib.util.find_spec("huey") is None:
        raise SystemExit("benchmarks: Huey is not installed, nothing to compare with; `python3 run bench` installs it")
    yield _compare_with_huey(folder)
    yield _compare_single_enqueue(folder)
    yield from _compare_start_latency(folder)


def _compare_with_loop(path: Path, processes: int) -> Comparison:
    url = f"sqlite:///{path}"
    store = holdfast.connect(url)

    def ours() -> float:
        fill(store, JOBS)
        return run_timed("holdfast_process", "worker-drain", url, processes)

    def other() -> float:
        fill(store, JOBS)
        return run_timed("holdfast_process", "loop-drain", url, LOOP_BATCH)

    return compare_throughput(
        f"SQLite: worker with {processes} process{'es' if processes > 1 else ''} / driver loop, no-op jobs",
        jobs=JOBS,
        rounds=ROUNDS,
        ours=ours,
        other=other,
        target=0.3,
    )


def _compare_with_huey(folder: Path) -> Comparison:
    url, huey_path = f"sqlite:///{folder / 'ours.db'}", folder / "huey.db"
    store = holdfast.connect(url)

    def ours() -> float:
        fill(store, JOBS)
        return run_timed("holdfast_process", "worker-drain", url, 2)

    def other() -> float:
        peer_huey.fill(huey_path, JOBS)
        return run_timed("peer_huey", "drain", huey_path, JOBS)

    return compare_throughput(
        "SQLite: worker with 2 processes / Huey with 2 workers, no-op jobs",
        jobs=JOBS,
        rounds=HUEY_ROUNDS,
        ours=ours,
        other=other,
        target=8,
    )


def _compare_single_enqueue(folder: Path) -> Comparison:
    path, huey_path = folder / "ours-each.db", folder / "huey-each.db"
    return compare_single_calls(
        "SQLite: enqueue one job at a time / Huey",
        calls=SINGLE_CALLS,
        rounds=SINGLE_ROUNDS,
        ours=lambda: run_timed("holdfast_process", "enqueue-each", f"sqlite:///{path}", SINGLE_CALLS),
        other=lambda: run_timed("peer_huey", "enqueue-each", huey_path, SINGLE_CALLS),
        target=0.9,
    )


def _compare_start_latency(folder: Path) -> Iterator[Comparison]:
    """From enqueue to the first line of the handler; Huey with its default polling and with frequent polling."""
    path, default_path, frequent_path = (folder / f"{name}-idle.db" for name in ("ours", "huey", "frequent"))
    url = f"sqlite:///{path}"
    store = holdfast.connect(url)
    with ExitStack() as stack:
        ours, _ = stack.enter_context(listener("holdfast_process", "worker-listen", url))
        default, _ = stack.enter_context(listener("peer_huey", "listen", default_path))
        frequent, _ = stack.enter_context(listener("peer_huey", "listen", frequent_path, HUEY_POLL_SECONDS))
        our_seconds, default_seconds, frequent_seconds = sample_start_latency(
            [
                (lambda: store.enqueue(make_records(1)), ours),
                (peer_huey.producer(default_path), default),
                (peer_huey.producer(frequent_path), frequent),
            ],
            samples=SAMPLES,
        )
    question = "SQLite: enqueue to start in an idle system, worker / Huey"
    yield compare_latency(question, ours=our_seconds, other=default_seconds, target=1.0, share=0.5)
    question = f"{question} polling every {HUEY_POLL_SECONDS * 1000:.0f} ms"
    yield compare_latency(question, ours=our_seconds, other=frequent_seconds, target=1.0, share=0.5)
