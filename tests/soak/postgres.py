"""PostgreSQL in large numbers: crashes of the server, sessions ended, an old snapshot, processes that are killed."""

from __future__ import annotations

import itertools
import time

import psycopg
import uuid_utils

import holdfast
from holdfast.clock import MINUTE
from holdfast.model.job import JobRecord
from holdfast.model.settlement import Ack
from holdfast.testing.drivers.simulation import simulate
from holdfast.testing.drivers.state_machine import run_state_machine
from holdfast.testing.servers.postgres import PostgresServer
from tests.postgres.faults import run_under_faults
from tests.sqlite.test_processes import run_processes


def crashes(scale: float) -> str:
    """The server is killed and started again under load."""
    count = max(2, int(10 * scale))
    with PostgresServer() as server:
        url = server.create_database("crashes")

        def crash() -> None:
            server.kill()
            server.start()

        refused = run_under_faults(url, crash, jobs=int(20_000 * scale), faults=count, every=2.0, within=600)
    said = sum(refused.values())
    return f"{count} crashes of a durable PostgreSQL under load: none lost, none acked twice, {said} refusals"


def sessions(scale: float) -> str:
    """Every session is ended, again and again, under load."""
    count = max(10, int(200 * scale))
    with PostgresServer() as server:
        url = server.create_database("sessions")

        def end_all() -> None:
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = 'sessions' AND pid <> pg_backend_pid()"
                )

        run_under_faults(url, end_all, jobs=int(20_000 * scale), faults=count, every=0.2, within=600)
    return f"every session ended {count} times under load: none lost, none acked twice"


def snapshot(scale: float) -> str:
    """Jobs pass while a transaction keeps vacuum from removing them."""
    jobs, k = int(200_000 * scale), 1000
    with PostgresServer() as server:
        store = holdfast.connect(f"{server.url}?listen=off")
        with psycopg.connect(server.url) as old:
            old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            old.execute("SELECT count(*) FROM holdfast.jobs")
            times = []
            for _ in range(0, jobs, k):
                store.enqueue([_job() for _ in range(k)])
                started = time.perf_counter()
                held = store.reserve(["q"], limit=k, lease_for=MINUTE)
                times.append(time.perf_counter() - started)
                assert len(held) == k
                assert not any(store.settle([Ack(one.lease) for one in held]))
            old.rollback()
        store.close()
    first, last = (1000 * sum(part) / len(part) for part in (times[:10], times[-10:]))
    return f"{jobs:,} jobs past an old snapshot: reserve of {k} took {first:.0f} ms at first, {last:.0f} ms at the end"


def fighting(scale: float) -> str:
    """Processes over one database, many of them killed."""
    jobs, kills = int(5000 * scale), int(60 * scale)
    with PostgresServer() as server:
        run_processes(server.url, producers=3, consumers=5, jobs=jobs, kills=kills)
    return f"8 processes on one database, {3 * jobs:,} jobs, {kills} SIGKILLs: none lost, none ended twice, no overlap"


def games(scale: float) -> str:
    """The simulation and the state machine, on a server that forgets nothing and syncs nothing."""
    seeds, plays = int(300 * scale), int(200 * scale)
    numbers = itertools.count()
    with PostgresServer(durable=False) as server:
        store = holdfast.connect(server.url, caller_clock=True)
        for seed in range(seeds):
            report = simulate(20_000 + seed, open_store=lambda: store.space(f"space-{next(numbers)}"))
            assert report.failure is None, f"seed {report.seed} on PostgreSQL: {report.failure}"
        run_state_machine(lambda: store.space(f"space-{next(numbers)}"), max_examples=plays, derandomize=False)
        store.close()
    return f"PostgreSQL: {seeds:,} seeds of the simulation, {plays:,} games beside the oracle: no difference"


def _job() -> JobRecord:
    return JobRecord(id=str(uuid_utils.uuid7()), type="t", queue="q", payload=b"{}", created_at=0)
