"""One side of a benchmark of workers, in a process of its own: ``python -m benchmarks.contender ROLE ...``.

A drain prints the seconds it took. A listener works until it is told to stop, and writes the instant at which each
handler starts to a pipe: the clock is that of the whole machine. What is not Huey's default is what makes it durable.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import holdfast
from benchmarks.jobs import QUEUE, TYPE, alike
from benchmarks.sides import tell_start
from benchmarks.sqlite_speed import drain
from holdfast.app import Holdfast
from holdfast.worker.context import Context
from holdfast.worker.options import WorkerOptions
from holdfast.worker.status import Settled
from holdfast.worker.worker import Worker

if TYPE_CHECKING:
    from huey import SqliteHuey

HUEY_WORKERS = 2
HANG = "hang"


def worker_drain(url: str, processes: str) -> None:
    """Everything that ``run`` does, from its call to its return: it forks, works, and finds that nothing is left."""
    app = Holdfast(url)
    app.handler(TYPE, queue=QUEUE)(lambda _payload: None)
    worker = app.worker(WorkerOptions(queues=(QUEUE,), processes=int(processes), until_drained=True))
    started = time.perf_counter()
    tally = worker.run()
    print(time.perf_counter() - started)
    assert set(tally) <= {"acked", "released"}, tally  # a machine that stands still for a second makes it give back
    app.close()


def worker_work(url: str, processes: str) -> None:
    """The same as PgQueuer's side counts it: from its call, with processes and connections there, to the last ack."""
    app = Holdfast(url)
    app.handler(TYPE, queue=QUEUE)(lambda _payload: None)
    last = 0.0

    def told(_settled: Sequence[Settled]) -> None:
        nonlocal last
        last = time.perf_counter()

    options = WorkerOptions(queues=(QUEUE,), processes=int(processes), until_drained=True)
    worker = Worker(app.driver, options, catalogue=app.catalogue, on_settled=told)
    worker.prepare()
    started = time.perf_counter()
    tally = worker.run()
    print(last - started)
    assert set(tally) <= {"acked", "released"}, tally
    app.close()


def loop_drain(url: str, k: str) -> None:
    """The driver alone: reserve and ack, no handler, no processes."""
    store = holdfast.connect(url)
    started = time.perf_counter()
    drain(store, int(k))
    print(time.perf_counter() - started)
    store.close()


def bulk_enqueue(url: str, count: str, batch: str) -> None:
    """From encoded payloads to stored jobs, as ``Client.enqueue_many`` does it: the making of ids counts."""
    store = holdfast.connect(url)
    started = time.perf_counter()
    for _ in range(0, int(count), int(batch)):
        store.enqueue(alike(int(batch)))
    print(time.perf_counter() - started)
    store.close()


def huey_drain(path: str, count: str) -> None:
    """From the start of the consumer to the end of the last task; its stopping is not counted."""
    queue = huey_at(Path(path))
    done = threading.Event()
    left = [int(count)]
    guard = threading.Lock()

    def noop(_payload: object) -> None:
        with guard:
            left[0] -= 1
            if not left[0]:
                done.set()

    huey_task(queue, noop)
    consumer = queue.create_consumer(workers=HUEY_WORKERS, worker_type="thread", periodic=False)
    started = time.perf_counter()
    consumer.start()
    done.wait()
    print(time.perf_counter() - started)
    consumer.stop(graceful=True)


def worker_listen(url: str, pipe: str) -> None:
    """One idle worker of two processes."""
    app = Holdfast(url)
    app.handler(TYPE, queue=QUEUE)(lambda _payload: tell_start(int(pipe)))
    app.worker(WorkerOptions(queues=(QUEUE,), processes=HUEY_WORKERS)).run()


def worker_hang(url: str, pipe: str, lease: str) -> None:
    """A worker of one process; what is to hang never ends at its first attempt."""

    def hang(payload: object, ctx: Context) -> None:
        tell_start(int(pipe))
        if payload == HANG and ctx.attempt == 1:
            threading.Event().wait()

    app = Holdfast(url)
    app.handler(TYPE, queue=QUEUE)(hang)
    app.worker(WorkerOptions(queues=(QUEUE,), processes=1, lease=timedelta(seconds=float(lease)))).run()


def huey_listen(path: str, pipe: str, *delay: str) -> None:
    """One idle consumer of two threads; with a delay it polls that often, whatever happens."""
    queue = huey_at(Path(path))
    huey_task(queue, lambda _payload: tell_start(int(pipe)))
    polling = {"initial_delay": float(delay[0]), "max_delay": float(delay[0])} if delay else {}
    queue.create_consumer(workers=HUEY_WORKERS, worker_type="thread", periodic=False, **polling).run()


def huey_at(path: Path, *, durable: bool = True) -> SqliteHuey:
    """A queue in this file; ``durable=False`` is for filling it before anything is measured."""
    from huey import SqliteHuey

    return SqliteHuey(name=QUEUE, filename=str(path), fsync=durable, timeout=60)


def huey_task(queue: SqliteHuey, function: Callable[[object], None]) -> Callable[[object], object]:
    """A call of it is a task. Huey finds tasks by module and name: they are the same here for whoever asks."""
    function.__module__ = __package__ or ""
    made: Callable[[object], object] = queue.task(name=TYPE)(function)
    return made


ROLES = {
    "worker-drain": worker_drain,
    "worker-work": worker_work,
    "loop-drain": loop_drain,
    "bulk-enqueue": bulk_enqueue,
    "huey-drain": huey_drain,
    "worker-listen": worker_listen,
    "worker-hang": worker_hang,
    "huey-listen": huey_listen,
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
