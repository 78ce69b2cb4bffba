"""Holdfast's side of a benchmark, in a child process: ``python -m benchmarks.holdfast_process ROLE ...``.

A drain prints the seconds that it took. A listener runs until it is stopped, and writes the start time of each handler
to a pipe.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from datetime import timedelta

import holdfast
from benchmarks.driver_loop import drain
from benchmarks.jobs import PAYLOAD, QUEUE, TYPE, make_batch
from benchmarks.processes import report_start, time_warm
from holdfast import Client, Context, Holdfast, JobRequest, Worker, WorkerOptions
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.status import Settled

IDLE_PROCESSES = 2
HANG = "hang"  # the payload of a job whose first attempt never ends
# A worker releases prefetched jobs that wait too long, which happens when the machine stalls for a second.
EXPECTED_STATUSES = {"acked", "released"}


def worker_drain(url: str, processes: str) -> None:
    """Time everything that ``Worker.run`` does: fork, run every job, and find that the queue is empty."""
    app = _noop_app(url)
    worker = app.worker(_drain_options(processes))
    started = time.perf_counter()
    counts = worker.run()
    print(time.perf_counter() - started)
    assert set(counts) <= EXPECTED_STATUSES, counts
    app.close()


class LastAck(WorkerObserver):
    """When the last settlement was answered."""

    at = 0.0

    def settled(self, _settled: Sequence[Settled]) -> None:
        """See ``WorkerObserver.settled``."""
        self.at = time.perf_counter()


def worker_drain_prepared(url: str, processes: str) -> None:
    """Time from the call with processes and connections ready to the last ack, as the peers are timed."""
    app = _noop_app(url)
    last_ack = LastAck()
    worker = Worker(app.driver, _drain_options(processes), catalogue=app.catalogue, observers=[last_ack])
    worker.prepare()
    started = time.perf_counter()
    counts = worker.run()
    print(last_ack.at - started)
    assert set(counts) <= EXPECTED_STATUSES, counts
    app.close()


def _noop_app(url: str) -> Holdfast:
    app = Holdfast(url)
    app.handler(TYPE, queue=QUEUE)(lambda _payload: None)
    return app


def _drain_options(processes: str) -> WorkerOptions:
    return WorkerOptions(queues=(QUEUE,), processes=int(processes), until_drained=True)


def loop_drain(url: str, batch_size: str) -> None:
    """Time the driver alone: reserve and ack, no handler, no child processes."""
    store = holdfast.connect(url)
    started = time.perf_counter()
    drain(store, int(batch_size))
    print(time.perf_counter() - started)
    store.close()


def bulk_enqueue(url: str, count: str, batch_size: str) -> None:
    """Time from encoded payloads to stored jobs, as ``Client.enqueue_many`` does it; creating the ids counts."""
    store = holdfast.connect(url)
    started = time.perf_counter()
    for _ in range(0, int(count), int(batch_size)):
        store.enqueue(make_batch(int(batch_size)))
    print(time.perf_counter() - started)
    store.close()


def enqueue_each(url: str, count: str) -> None:
    """Time ``Client.enqueue`` of one job at a time, in a process that has run for a while."""
    with holdfast.connect(url) as store:
        client = Client(store)
        payload = json.loads(PAYLOAD)
        print(time_warm(int(count), lambda: client.enqueue(JobRequest(type=TYPE, queue=QUEUE, payload=payload))))


def worker_listen(url: str, pipe: str) -> None:
    """Run an idle worker with two processes."""
    app = Holdfast(url)
    app.handler(TYPE, queue=QUEUE)(lambda _payload: report_start(int(pipe)))
    app.worker(WorkerOptions(queues=(QUEUE,), processes=IDLE_PROCESSES)).run()


def worker_hang(url: str, pipe: str, lease: str) -> None:
    """Run a worker with one process; the first attempt of a job with the payload ``HANG`` never ends."""

    def handle(payload: object, ctx: Context) -> None:
        report_start(int(pipe))
        if payload == HANG and ctx.attempt == 1:
            threading.Event().wait()

    app = Holdfast(url)
    app.handler(TYPE, queue=QUEUE)(handle)
    app.worker(WorkerOptions(queues=(QUEUE,), processes=1, lease=timedelta(seconds=float(lease)))).run()


ROLES = {
    "worker-drain": worker_drain,
    "worker-drain-prepared": worker_drain_prepared,
    "loop-drain": loop_drain,
    "bulk-enqueue": bulk_enqueue,
    "enqueue-each": enqueue_each,
    "worker-listen": worker_listen,
    "worker-hang": worker_hang,
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
