"""What a worker costs beside the bare driver on PostgreSQL, and how both compare with PgQueuer on the same server.

One server with durable settings (fsync, synchronous_commit), a database for each side, each side in a process of its
own. How PgQueuer is set up stands in ``contender_pgqueuer``: by its own guide to performance, with a pool and with one
connection, of which the quicker round counts. It runs handlers on the event loop of the process that asks for jobs, and
keeps of a job that ended one narrow row; here they run in child processes, and the job and its ledger row are kept.

Oban for Python needs Python 3.12, and the locked packages are for 3.11, too: it is asked only where somebody has
installed it beside them.
"""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg

import holdfast
from benchmarks.contender import HANG
from benchmarks.jobs import fill, make
from benchmarks.measure import Answer, latency, throughput
from benchmarks.sides import listener, next_start, seconds, until_start
from holdfast.client import MAX_BATCH_JOBS as CLIENT_BATCH
from holdfast.testing.servers.postgres import PostgresServer

JOBS = 20_000
ROUNDS = 5
PEER_ROUNDS = 5  # each has two of both sides
BATCH = 1000  # of the driver loop
PEER_ENQUEUES = (500, 1000, 2000)  # at a time; larger ones are slower
PEER_BATCHES = {"pool": 1000, "connection": 2000}  # of 500, 1000 and 2000 the quickest, though a busy machine hid much
OBAN_LIMIT = 1000  # of 50, 200 and 1000 the quickest with one process, and as quick as 200 with two
SAMPLES = 200
PAUSE = (0.05, 0.15)  # seconds between two samples, so that everybody is idle again
LEASE = 2.0  # seconds
KILLS = 4
SLACK = 1.0  # seconds after the end of its lease in which a job has to run again


def answers(_: Path) -> Iterator[Answer]:
    if importlib.util.find_spec("pgqueuer") is None:
        raise SystemExit("benchmarks: PgQueuer is not installed, nothing to compare with; `python3 run bench` does it")
    from benchmarks.contender_pgqueuer import Producer

    with PostgresServer() as server:
        url, peer = server.create_database("ours"), server.create_database("pgqueuer")
        Producer(peer).install()
        for processes in (1, 2):
            yield _drain_beside_the_loop(url, processes)
        for processes in (1, 2):
            yield _drain_beside_pgqueuer(url, peer, processes)
        if importlib.util.find_spec("oban") is not None:
            for processes in (1, 2):
                yield _drain_beside_oban(url, server.create_database(f"oban_{processes}"), processes)
        yield _enqueue(server)
        yield _starts(server)
        yield _rerun(server.create_database("killed"))


# Throughput -------------------------------------------------------------------------------------------------


def _drain_beside_the_loop(url: str, processes: int) -> Answer:
    store = holdfast.connect(url)

    def ours() -> float:
        fill(store, JOBS)
        return seconds("contender", "worker-drain", url, processes)

    def other() -> float:
        fill(store, JOBS)
        return seconds("contender", "loop-drain", url, BATCH)

    try:
        return throughput(
            f"PostgreSQL: worker with {_of(processes)} / driver loop, no-op jobs",
            jobs=JOBS,
            rounds=ROUNDS,
            ours=ours,
            other=other,
            wanted=0.5,
        )
    finally:
        store.close()


def _drain_beside_pgqueuer(url: str, peer: str, processes: int) -> Answer:
    store = holdfast.connect(url)

    def once() -> float:
        fill(store, JOBS)
        _let_rest(url, peer)
        return seconds("contender", "worker-work", url, processes)

    def theirs(over: str) -> float:
        seconds("contender_pgqueuer", "enqueue", peer, JOBS, PEER_ENQUEUES[0])
        _let_rest(url, peer)
        return seconds("contender_pgqueuer", "drain", peer, JOBS, processes, PEER_BATCHES[over], over)

    try:
        return throughput(
            f"PostgreSQL: worker / PgQueuer with {_of(processes)}, no-op jobs",
            jobs=JOBS,
            rounds=PEER_ROUNDS,
            ours=lambda: min(once(), once()),  # as many tries as the other side has
            other=lambda: min(theirs("pool"), theirs("connection")),
            wanted=1.5,
        )
    finally:
        store.close()


def _let_rest(*urls: str) -> None:
    """What earlier rounds have left to clean up is cleaned up now: else it falls to whoever happens to run then."""
    for url in urls:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")


def _drain_beside_oban(url: str, peer: str, processes: int) -> Answer:
    store = holdfast.connect(url)

    def ours() -> float:
        fill(store, JOBS)
        return seconds("contender", "worker-work", url, processes)

    def other() -> float:
        seconds("contender_oban", "enqueue", peer, JOBS, PEER_ENQUEUES[0])
        return seconds("contender_oban", "drain", peer, processes, OBAN_LIMIT)

    try:
        question = f"PostgreSQL: worker / Oban with {_of(processes)}, no-op jobs"
        return throughput(question, jobs=JOBS, rounds=PEER_ROUNDS, ours=ours, other=other, wanted=1.5)
    finally:
        store.close()


def _of(processes: int) -> str:
    return f"{processes} process{'es' if processes > 1 else ''}"


def _enqueue(server: PostgresServer) -> Answer:
    from benchmarks.contender_pgqueuer import Producer

    url, peer = server.create_database("enqueue"), server.create_database("pgqueuer_enqueue")
    holdfast.connect(url).close()
    Producer(peer).install()
    return throughput(
        "PostgreSQL: bulk enqueue / PgQueuer's, each in its best batches",
        jobs=JOBS,
        rounds=PEER_ROUNDS,
        ours=lambda: min(seconds("contender", "bulk-enqueue", url, JOBS, CLIENT_BATCH) for _ in PEER_ENQUEUES),
        other=lambda: min(seconds("contender_pgqueuer", "enqueue", peer, JOBS, batch) for batch in PEER_ENQUEUES),
        wanted=2.0,
    )


# Latency ----------------------------------------------------------------------------------------------------


def _starts(server: PostgresServer) -> Answer:
    """One job at a time, the sides in turn, in databases that nothing else has used."""
    from benchmarks.contender_pgqueuer import Producer

    url, peer = server.create_database("idle"), server.create_database("pgqueuer_idle")
    store, producer = holdfast.connect(url), Producer(peer)
    producer.install()
    dice = random.Random(1)
    with ExitStack() as stack:
        ours, _ = stack.enter_context(listener("contender", "worker-listen", url))
        theirs, _ = stack.enter_context(listener("contender_pgqueuer", "listen", peer))
        sides: list[tuple[Callable[[], object], int, list[float]]] = [
            (lambda: store.enqueue(make(1)), ours, []),
            (producer.enqueue, theirs, []),
        ]
        for enqueue, pipe, _ in sides:  # the first one waits for the process to come up
            until_start(enqueue, pipe)
        for _ in range(SAMPLES):
            for enqueue, pipe, taken in sides:
                time.sleep(dice.uniform(*PAUSE))
                taken.append(until_start(enqueue, pipe))
    store.close()
    [(_, _, mine), (_, _, others)] = sides
    question = "PostgreSQL: enqueue to start in an idle system, worker / PgQueuer"
    return latency(question, ours=mine, other=others, wanted=1.25, share=0.5)


# Deaths -----------------------------------------------------------------------------------------------------


def _rerun(url: str) -> Answer:
    """From the SIGKILL of a worker with all its processes to the start of its job in another; the longest counts."""
    store = holdfast.connect(url)
    dice = random.Random(1)
    took = []
    for _ in range(KILLS):
        with ExitStack() as stack:
            first, victim = stack.enter_context(listener("contender", "worker-hang", url, LEASE))
            until_start(lambda: store.enqueue(make(1, payload=f'"{HANG}"'.encode())), first)
            second, _ = stack.enter_context(listener("contender", "worker-hang", url, LEASE))
            until_start(lambda: store.enqueue(make(1)), second)  # it is up
            time.sleep(dice.uniform(0, LEASE))  # at any moment between two heartbeats
            began = time.monotonic()
            os.killpg(victim.pid, signal.SIGKILL)
            took.append(next_start(second) - began)
    store.close()
    return Answer(
        question=f"PostgreSQL: rerun after SIGKILL of the worker / lease of {LEASE:.0f} s + {SLACK:.0f} s",
        ratio=max(took) / (LEASE + SLACK),
        wanted=1.0,
        at_least=False,
        ours=f"{max(took):.2f} s",
        other=f"{LEASE + SLACK:.2f} s",
    )
