"""Huey's side of a benchmark, in a child process: ``python -m benchmarks.peer_huey ROLE ...``.

Every setting that differs from Huey's default makes it durable.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.jobs import PAYLOAD, QUEUE, TYPE
from benchmarks.processes import report_start, time_warm

if TYPE_CHECKING:
    from huey import SqliteHuey

WORKERS = 2


def drain(path: str, count: str) -> None:
    """Time from the start of the consumer to the end of the last task; stopping the consumer does not count."""
    queue = open_queue(Path(path))
    done = threading.Event()
    left = [int(count)]
    lock = threading.Lock()

    def noop(_payload: object) -> None:
        with lock:
            left[0] -= 1
            if not left[0]:
                done.set()

    register_task(queue, noop)
    consumer = queue.create_consumer(workers=WORKERS, worker_type="thread", periodic=False)
    started = time.perf_counter()
    consumer.start()
    done.wait()
    print(time.perf_counter() - started)
    consumer.stop(graceful=True)


def enqueue_each(path: str, count: str) -> None:
    """Time the enqueue of one task at a time, in a process that has run for a while."""
    queue = open_queue(Path(path))
    task = register_task(queue, _never_run_here)
    payload = json.loads(PAYLOAD)
    print(time_warm(int(count), lambda: task(payload)))


def listen(path: str, pipe: str, *delay: str) -> None:
    """Run an idle consumer with two threads; with a delay, it always polls at that interval."""
    queue = open_queue(Path(path))
    register_task(queue, lambda _payload: report_start(int(pipe)))
    polling = {"initial_delay": float(delay[0]), "max_delay": float(delay[0])} if delay else {}
    queue.create_consumer(workers=WORKERS, worker_type="thread", periodic=False, **polling).run()


def open_queue(path: Path, *, durable: bool = True) -> SqliteHuey:
    """A queue in this file; ``durable=False`` is for filling it before a measurement."""
    from huey import SqliteHuey

    return SqliteHuey(name=QUEUE, filename=str(path), fsync=durable, timeout=60)


def register_task(queue: SqliteHuey, function: Callable[[object], None]) -> Callable[[object], object]:
    """Return a callable that enqueues the task. Huey finds tasks by module and name, so every process uses the same."""
    function.__module__ = __package__ or ""
    task: Callable[[object], object] = queue.task(name=TYPE)(function)
    return task


def producer(path: Path, *, durable: bool = True) -> Callable[[], object]:
    """Return a function that enqueues one task."""
    task = register_task(open_queue(path, durable=durable), _never_run_here)
    return lambda: task(PAYLOAD)


def fill(path: Path, count: int) -> None:
    """Enqueue tasks without fsync."""
    queue = open_queue(path, durable=False)
    task = register_task(queue, _never_run_here)
    for _ in range(count):
        task(PAYLOAD)
    queue.storage.close()


def _never_run_here(_payload: object) -> None:
    """The consumer process has the real task; a producer only enqueues it."""


ROLES: dict[str, Callable[..., None]] = {"drain": drain, "enqueue-each": enqueue_each, "listen": listen}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
