"""PostgreSQL under load: server crashes, terminated sessions, an old snapshot, killed processes."""

from __future__ import annotations

import itertools
import time

import psycopg
import uuid_utils

import holdfast
from holdfast.driver import MINUTE, Ack, JobRecord
from holdfast.testing.servers.postgres import PostgresServer
from tests.drivers.simulation import simulate
from tests.drivers.state_machine import run_state_machine
from tests.postgres.faults import run_under_faults
from tests.postgres.stress import count_deadlocks_of_random_verbs
from tests.sqlite.test_processes import run_processes


def run_crashes(scale: float) -> str:
    """The server is killed and restarted under load."""
    count = max(2, int(10 * scale))
    with PostgresServer() as server:
        url = server.create_database("crashes")

        def crash() -> None:
            server.kill()
            server.start()

        refused = run_under_faults(url, crash, jobs=int(20_000 * scale), faults=count, every=2.0, within=600)
    return (
        f"{count} crashes of a durable PostgreSQL under load: no job lost, none acked twice, "
        f"{sum(refused.values())} calls refused"
    )


def run_terminated_sessions(scale: float) -> str:
    """Every session is terminated many times under load."""
    count = max(10, int(200 * scale))
    with PostgresServer() as server:
        url = server.create_database("sessions")

        def terminate_all() -> None:
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = 'sessions' AND pid <> pg_backend_pid()"
                )

        run_under_faults(url, terminate_all, jobs=int(20_000 * scale), faults=count, every=0.2, within=600)
    return f"every session terminated {count} times under load: no job lost, none acked twice"


def run_old_snapshot(scale: float) -> str:
    """Jobs run while an old transaction prevents vacuum from removing their dead rows."""
    jobs, batch = int(200_000 * scale), 1000
    with PostgresServer() as server:
        store = holdfast.connect(f"{server.url}?listen=off")
        with psycopg.connect(server.url) as old:
            old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            old.execute("SELECT count(*) FROM holdfast.jobs")
            seconds = []
            for _ in range(0, jobs, batch):
                store.enqueue([_job() for _ in range(batch)])
                started = time.perf_counter()
                reservations = store.reserve(["q"], limit=batch, lease_for=MINUTE)
                seconds.append(time.perf_counter() - started)
                assert len(reservations) == batch
                assert not any(store.settle([Ack(one.lease) for one in reservations]))
            old.rollback()
        store.close()
    first, last = (1000 * sum(part) / len(part) for part in (seconds[:10], seconds[-10:]))
    return (
        f"{jobs:,} jobs with an old snapshot open: reserve of {batch} took {first:.0f} ms at first, "
        f"{last:.0f} ms at the end"
    )


def run_competing_processes(scale: float) -> str:
    """Processes compete for the jobs of one database, and many of them are killed."""
    jobs, kills = int(5000 * scale), int(60 * scale)
    with PostgresServer() as server:
        run_processes(server.url, producers=3, consumers=5, jobs=jobs, kills=kills)
    return f"8 processes on one database, {3 * jobs:,} jobs, {kills} SIGKILLs: none lost, none ended twice, no overlap"


def run_simulation(scale: float) -> str:
    """The simulation and the state machine, on a server without fsync."""
    seeds, examples = int(300 * scale), int(200 * scale)
    numbers = itertools.count()
    with PostgresServer(durable=False) as server:
        store = holdfast.connect(server.url, caller_clock=True)
        for seed in range(seeds):
            report = simulate(20_000 + seed, open_store=lambda: store.space(f"space-{next(numbers)}"))
            assert report.failure is None, f"seed {report.seed} on PostgreSQL: {report.failure}"
        run_state_machine(lambda: store.space(f"space-{next(numbers)}"), max_examples=examples, derandomize=False)
        store.close()
    return f"PostgreSQL: {seeds:,} simulation seeds, {examples:,} state machine runs against the oracle: no difference"


def run_random_verbs(scale: float) -> str:
    """All verbs at random in shared domains, in every second round with limit keys, in the others with offsets."""
    rounds, threads, steps = max(2, int(20 * scale)), 8, 600
    with PostgresServer() as server:
        for seed in range(100, 100 + rounds):
            url = server.create_database(f"verbs_{seed}")
            keyed = seed % 2 == 1
            deadlocks = count_deadlocks_of_random_verbs(
                url, threads=threads, steps=steps, seed=seed, keyed=keyed, ordered=not keyed
            )
            assert deadlocks == 0, f"seed {seed}: {deadlocks} deadlocks"
    return (
        f"{rounds * threads * steps:,} random verbs in 12 domains and 3 limit keys by {threads} threads: "
        "no deadlock, no lost turn, no job parked for ever, no limit exceeded"
    )


def _job() -> JobRecord:
    return JobRecord(id=str(uuid_utils.uuid7()), type="t", queue="q", payload=b"{}", created_at=0)
