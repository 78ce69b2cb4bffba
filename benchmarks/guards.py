"""What does each guard cost in the drain of no-op jobs, on SQLite and PostgreSQL, in processor time?

Every side is a worker with one process in a child process that drains the same jobs; one side has no guard, each of the
others has one. The sides take turns, and the best round of each counts. The time is that of the worker, its children
and the server: other load changes it little. No guard stops a job here: every job has a lock of its own, and the limits
are never reached.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.comparison import Comparison
from benchmarks.cpu_time import tree_seconds
from benchmarks.jobs import PAYLOAD, QUEUE, TYPE, fill
from benchmarks.processes import run_timed
from holdfast import Holdfast, JobRequest, WorkerOptions, connect
from holdfast.clock import MINUTE
from holdfast.driver import Ack, Change
from holdfast.settings import read
from holdfast.testing.servers.postgres import PostgresServer

JOBS = 20_000
ROUNDS = 3
ACKS = 1000
ACK_ROUNDS = 10
PLAIN = "plain"
SECRET = "correct horse battery staple"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A guard: keywords of the handler, variables of the settings, and fields of each job."""

    target: float = 1.0  # the least ratio
    handler: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    allowed_handlers: dict[str, tuple[str, ...]] | None = None
    has_own_lock: bool = False


GUARDS = {
    PLAIN: Guard(),
    "signing": Guard(target=0.8, variables={"HOLDFAST_SIGNING": "required", "HOLDFAST_SIGNING_KEY": SECRET}),
    "allowlist": Guard(target=0.9, allowed_handlers={QUEUE: (TYPE,)}),
    "breaker": Guard(target=0.9, handler={"breaker_threshold": 5}),
    "limits": Guard(target=0.7, handler={"rate": 1_000_000, "max_inflight": 1_000_000}),
    "idempotent": Guard(target=0.3, handler={"idempotent": True}),
    "single_instance": Guard(target=0.3, has_own_lock=True),
    "capture_output": Guard(target=0.3, handler={"capture_output": True}),
}


def measure(folder: Path) -> Iterator[Comparison]:
    numbers = itertools.count()
    yield from _compare("SQLite", lambda: f"sqlite:///{folder}/{next(numbers)}.db")
    with PostgresServer() as server:
        yield from _compare("PostgreSQL", lambda: server.create_database(f"guards_{next(numbers)}"), server=server.pid)
        yield _compare_acks(server.create_database("acks"))


def _compare(store: str, make_url: Callable[[], str], *, server: int | None = None) -> Iterator[Comparison]:
    seconds: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name in GUARDS:
            took = run_timed("guards", name, make_url(), server or "")
            seconds[name] = min(took, seconds.get(name, took))
    for name, guard in GUARDS.items():
        if name != PLAIN:
            yield Comparison(
                question=f"{store}: worker with {name} / without a guard, no-op jobs, in processor time",
                ratio=seconds[PLAIN] / seconds[name],
                target=guard.target,
                at_least=True,
                ours=f"{seconds[name] / JOBS * 1e6:.1f} µs/job",
                other=f"{seconds[PLAIN] / JOBS * 1e6:.1f} µs/job",
            )


def _compare_acks(url: str) -> Comparison:
    """Acks with one registry write each, as the guards send them, and plain ones, in turn."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    with connect(url) as store:
        for number, has_write in itertools.product(range(ACK_ROUNDS), seconds):
            fill(store, ACKS)
            acks = [
                Ack(one.lease, writes=(Change(kind="bench", key=f"{number} {place}", value=b"1"),) if has_write else ())
                for place, one in enumerate(store.reserve([QUEUE], limit=ACKS, lease_for=MINUTE))
            ]
            started = time.perf_counter()
            assert not any(store.settle(acks))
            seconds[has_write].append(time.perf_counter() - started)
    ours, other = min(seconds[True]), min(seconds[False])
    return Comparison(
        question=f"PostgreSQL: settle {ACKS:,} acks with a registry write each / plain acks, time",
        ratio=ours / other,
        target=2.0,
        at_least=False,
        ours=f"{ours * 1000:.1f} ms",
        other=f"{other * 1000:.1f} ms",
    )


def main(name: str, url: str, server: str) -> None:
    """Enqueue the jobs, and print the processor time of a worker and of the server with this process id for them."""
    processes = [os.getpid(), *([int(server)] if server else [])]
    guard = GUARDS[name]
    app = Holdfast(url)
    app.use_settings(read(environ=guard.variables))
    app.handler(TYPE, queue=QUEUE, **guard.handler)(lambda _payload: None)
    payload = json.loads(PAYLOAD)
    app.client.enqueue(
        [
            JobRequest(
                type=TYPE,
                queue=QUEUE,
                payload=payload,
                idempotency_key=f"key {number}",
                single_instance=f"lock {number}" if guard.has_own_lock else False,
            )
            for number in range(JOBS)
        ]
    )
    options = WorkerOptions(queues=(QUEUE,), processes=1, until_drained=True, allowed_handlers=guard.allowed_handlers)
    worker = app.worker(options)
    before = sum(map(tree_seconds, processes))
    counts = worker.run()
    print(sum(map(tree_seconds, processes)) - before)
    assert counts["acked"] == JOBS, counts
    app.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
