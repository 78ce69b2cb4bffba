"""How much does a worker cost on top of the driver on PostgreSQL, and how does it compare with PgQueuer?

One server with durable settings (fsync, synchronous_commit), one database for each side, and each side in a child
process. ``peer_pgqueuer`` configures PgQueuer by its own performance guide, once with a pool and once with
one connection; the faster round counts. PgQueuer runs handlers on the event loop of the process that fetches jobs, and
stores one narrow row for an ended job. Holdfast runs handlers in child processes and stores the job and a ledger row.

Oban for Python needs Python 3.12, and the locked packages support 3.11, so Oban is measured only where it has been
installed separately.
"""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg

import holdfast
from benchmarks.comparison import Comparison, compare_latency, compare_single_calls, compare_throughput
from benchmarks.holdfast_process import HANG
from benchmarks.jobs import fill, make_records
from benchmarks.processes import listener, next_start, run_timed, sample_start_latency, time_to_start
from holdfast.client import MAX_BATCH_JOBS as CLIENT_BATCH
from holdfast.testing.servers.postgres import PostgresServer

JOBS = 20_000
ROUNDS = 5
PEER_ROUNDS = 5  # each round measures both sides twice
LOOP_BATCH = 1000
PEER_ENQUEUE_BATCHES = (500, 1000, 2000)  # larger batches are slower
# The fastest of 500, 1000 and 2000; other load on the machine hid much of the difference.
PEER_FETCH_BATCHES = {"pool": 1000, "connection": 2000}
OBAN_LIMIT = 1000  # the fastest of 50, 200 and 1000 with one process, and as fast as 200 with two
SINGLE_CALLS = 500
SINGLE_ROUNDS = 15
SAMPLES = 200
LEASE_SECONDS = 2.0
KILLS = 4
RERUN_MARGIN_SECONDS = 1.0  # a job must run again within this time after the end of its lease


def measure(_: Path) -> Iterator[Comparison]:
    if importlib.util.find_spec("pgqueuer") is None:
        raise SystemExit(
            "benchmarks: PgQueuer is not installed, nothing to compare with; `python3 run bench` installs it"
        )
    from benchmarks.peer_pgqueuer import Producer

    with PostgresServer() as server:
        url, pgqueuer_url = server.create_database("ours"), server.create_database("pgqueuer")
        Producer(pgqueuer_url).install()
        for processes in (1, 2):
            yield _compare_with_loop(url, processes)
        for processes in (1, 2):
            yield _compare_with_pgqueuer(url, pgqueuer_url, processes)
        if importlib.util.find_spec("oban") is not None:
            for processes in (1, 2):
                yield _compare_with_oban(url, server.create_database(f"oban_{processes}"), processes)
        yield _compare_enqueue(server)
        yield _compare_single_enqueue(server)
        yield _compare_start_latency(server)
        yield _measure_rerun(server.create_database("killed"))


# Throughput -------------------------------------------------------------------------------------------------


def _compare_with_loop(url: str, processes: int) -> Comparison:
    with holdfast.connect(url) as store:

        def ours() -> float:
            fill(store, JOBS)
            return run_timed("holdfast_process", "worker-drain", url, processes)

        def other() -> float:
            fill(store, JOBS)
            return run_timed("holdfast_process", "loop-drain", url, LOOP_BATCH)

        return compare_throughput(
            f"PostgreSQL: worker with {_processes(processes)} / driver loop, no-op jobs",
            jobs=JOBS,
            rounds=ROUNDS,
            ours=ours,
            other=other,
            target=0.5,
        )


def _compare_with_pgqueuer(url: str, pgqueuer_url: str, processes: int) -> Comparison:
    with holdfast.connect(url) as store:

        def worker() -> float:
            fill(store, JOBS)
            _vacuum(url, pgqueuer_url)
            return run_timed("holdfast_process", "worker-drain-prepared", url, processes)

        def pgqueuer(connection_kind: str) -> float:
            run_timed("peer_pgqueuer", "enqueue", pgqueuer_url, JOBS, PEER_ENQUEUE_BATCHES[0])
            _vacuum(url, pgqueuer_url)
            batch = PEER_FETCH_BATCHES[connection_kind]
            return run_timed("peer_pgqueuer", "drain", pgqueuer_url, JOBS, processes, batch, connection_kind)

        return compare_throughput(
            f"PostgreSQL: worker / PgQueuer with {_processes(processes)}, no-op jobs",
            jobs=JOBS,
            rounds=PEER_ROUNDS,
            ours=lambda: min(worker(), worker()),  # as many tries as PgQueuer has
            other=lambda: min(pgqueuer("pool"), pgqueuer("connection")),
            target=1.5,
        )


def _vacuum(*urls: str) -> None:
    """Clean up after earlier rounds now; otherwise autovacuum does it during a measurement."""
    for url in urls:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")


def _compare_with_oban(url: str, oban_url: str, processes: int) -> Comparison:
    with holdfast.connect(url) as store:

        def ours() -> float:
            fill(store, JOBS)
            return run_timed("holdfast_process", "worker-drain-prepared", url, processes)

        def other() -> float:
            run_timed("peer_oban", "enqueue", oban_url, JOBS, PEER_ENQUEUE_BATCHES[0])
            return run_timed("peer_oban", "drain", oban_url, processes, OBAN_LIMIT)

        question = f"PostgreSQL: worker / Oban with {_processes(processes)}, no-op jobs"
        return compare_throughput(question, jobs=JOBS, rounds=PEER_ROUNDS, ours=ours, other=other, target=1.5)


def _processes(count: int) -> str:
    return f"{count} process{'es' if count > 1 else ''}"


def _compare_enqueue(server: PostgresServer) -> Comparison:
    from benchmarks.peer_pgqueuer import Producer

    url, pgqueuer_url = server.create_database("enqueue"), server.create_database("pgqueuer_enqueue")
    holdfast.connect(url).close()
    Producer(pgqueuer_url).install()

    def enqueue() -> float:
        return run_timed("holdfast_process", "bulk-enqueue", url, JOBS, CLIENT_BATCH)

    return compare_throughput(
        "PostgreSQL: bulk enqueue / PgQueuer, both with their best batch size",
        jobs=JOBS,
        rounds=PEER_ROUNDS,
        ours=lambda: min(enqueue() for _ in PEER_ENQUEUE_BATCHES),  # as many tries as PgQueuer has
        other=lambda: min(
            run_timed("peer_pgqueuer", "enqueue", pgqueuer_url, JOBS, batch) for batch in PEER_ENQUEUE_BATCHES
        ),
        target=2.0,
    )


def _compare_single_enqueue(server: PostgresServer) -> Comparison:
    from benchmarks.peer_pgqueuer import Producer

    url, pgqueuer_url = server.create_database("single"), server.create_database("pgqueuer_single")
    holdfast.connect(url).close()
    Producer(pgqueuer_url).install()
    return compare_single_calls(
        "PostgreSQL: enqueue one job at a time / PgQueuer",
        calls=SINGLE_CALLS,
        rounds=SINGLE_ROUNDS,
        ours=lambda: run_timed("holdfast_process", "enqueue-each", url, SINGLE_CALLS),
        other=lambda: run_timed("peer_pgqueuer", "enqueue-each", pgqueuer_url, SINGLE_CALLS),
        target=0.9,
    )


# Latency ----------------------------------------------------------------------------------------------------


def _compare_start_latency(server: PostgresServer) -> Comparison:
    """One job at a time, both sides in turn, in new databases."""
    from benchmarks.peer_pgqueuer import Producer

    url, pgqueuer_url = server.create_database("idle"), server.create_database("pgqueuer_idle")
    store, producer = holdfast.connect(url), Producer(pgqueuer_url)
    producer.install()
    with ExitStack() as stack:
        ours, _ = stack.enter_context(listener("holdfast_process", "worker-listen", url))
        other, _ = stack.enter_context(listener("peer_pgqueuer", "listen", pgqueuer_url))
        our_seconds, other_seconds = sample_start_latency(
            [(lambda: store.enqueue(make_records(1)), ours), (producer.enqueue, other)], samples=SAMPLES
        )
    store.close()
    question = "PostgreSQL: enqueue to start in an idle system, worker / PgQueuer"
    return compare_latency(question, ours=our_seconds, other=other_seconds, target=1.25, share=0.5)


# A killed worker --------------------------------------------------------------------------------------------


def _measure_rerun(url: str) -> Comparison:
    """From SIGKILL of a worker and its children to the start of its job in another worker; the longest time counts."""
    store = holdfast.connect(url)
    pauses = random.Random(1)
    seconds = []
    for _ in range(KILLS):
        with ExitStack() as stack:
            first, victim = stack.enter_context(listener("holdfast_process", "worker-hang", url, LEASE_SECONDS))
            time_to_start(lambda: store.enqueue(make_records(1, payload=f'"{HANG}"'.encode())), first)
            second, _ = stack.enter_context(listener("holdfast_process", "worker-hang", url, LEASE_SECONDS))
            time_to_start(lambda: store.enqueue(make_records(1)), second)  # the second worker is running now
            time.sleep(pauses.uniform(0, LEASE_SECONDS))  # a random moment between two heartbeats
            began = time.monotonic()
            os.killpg(victim.pid, signal.SIGKILL)
            seconds.append(next_start(second) - began)
    store.close()
    allowed = LEASE_SECONDS + RERUN_MARGIN_SECONDS
    return Comparison(
        question=f"PostgreSQL: time until a killed worker's job runs again / lease of {LEASE_SECONDS:.0f} s"
        f" + {RERUN_MARGIN_SECONDS:.0f} s",
        ratio=max(seconds) / allowed,
        target=1.0,
        at_least=False,
        ours=f"{max(seconds):.2f} s",
        other=f"{allowed:.2f} s",
    )
