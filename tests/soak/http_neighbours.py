"""A client of the HTTP service that asks for much: the memory of the process and the latency of others, in numbers."""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psycopg

import holdfast
from holdfast.clock import SECOND
from holdfast.driver import JobRecord
from holdfast.testing.servers.postgres import PostgresServer
from tests.service.http_service import in_thread
from tests.service.test_batch_memory import memory_of
from tests.service.test_processes import ServeProcess, serve_processes
from tests.unit.webhooks.test_runner import SilentHost
from tests.webhook_receiver import receiving

MIB = 1 << 20
QUIET = {"HOLDFAST_LOG_LEVEL": "error"}  # else there is a line for each lease that expires
LARGE = b'"%b"' % (b"x" * 1_000_000)
BATCH_CLIENTS, BATCH_ITEMS = 4, 1000
LEASES, LEASE_SECONDS = 600, 5
BODY_CLIENTS, BODY_BYTES = 2, 3_500_000
CALLBACKS = 100  # of each silent host
MAX_GROWTH_BYTES = 150 * MIB
MAX_STALL_SECONDS = 2.0
MAX_MEDIAN_SECONDS = 0.2
MAX_CALLBACK_SECONDS = 5.0
MAX_LOCKED_SECONDS = 15.0


def run_http_neighbours(folder: Path, scale: float) -> str:
    """Run all; return a summary."""
    with PostgresServer() as server:
        stores = {"SQLite": f"sqlite:///{folder}/neighbours.db", "PostgreSQL": server.create_database("neighbours")}
        parts = [
            f"{name}: {_run_batches(url)}; {_run_expired_leases(url, int(LEASES * min(1.0, scale)))}"
            for name, url in stores.items()
        ]
    parts.append(_run_large_bodies(f"sqlite:///{folder}/bodies.db", bodies=max(10, int(40 * scale))))
    parts.append(_run_locked_file(folder / "locked.db"))
    parts.append(_run_silent_receivers(f"sqlite:///{folder}/silent.db"))
    return "; ".join(parts)


def _large_jobs(name: str, count: int) -> list[JobRecord]:
    common = {"type": name, "queue": name, "payload": LARGE, "created_at": 1}
    return [JobRecord(id=f"{name}-{number}", **common) for number in range(count)]


def _run_batches(url: str) -> str:
    with holdfast.connect(url) as store, serve_processes(url, 1, QUIET) as [service]:
        store.enqueue(_large_jobs("named", 1))
        store.reserve(["named"], limit=1, lease_for=3600 * SECOND)
        item = {"taskId": "named-0", "leaseToken": "1.0", "status": "COMPLETED"}
        _post_time(service)
        before = memory_of(service.process.pid)
        calls = [
            in_thread(lambda: service.post("/v1/tasks/result/batch", {"results": [item] * BATCH_ITEMS}))
            for _ in range(BATCH_CLIENTS)
        ]
        for call in calls:
            assert {one["problem"]["code"] for one in call().json()["results"]} == {"lease_mismatch"}
        growth = memory_of(service.process.pid) - before
    assert growth < MAX_GROWTH_BYTES, growth
    return (
        f"{BATCH_CLIENTS} batches of {BATCH_ITEMS:,} items that name a task of 1 MB: {before // MIB} MiB before, "
        f"{growth / MIB:.1f} MiB more"
    )


def _run_expired_leases(url: str, count: int) -> str:
    with holdfast.connect(url) as store, serve_processes(url, 1, QUIET) as [service]:
        jobs = _large_jobs("large", count)
        for start in range(0, count, 50):
            store.enqueue(jobs[start : start + 50])
        held = 0
        while held < count:
            held += len(store.reserve(["large"], limit=50, lease_for=LEASE_SECONDS * SECOND))
        written = _written_bytes(url, service)
        times = [_post_time(service)]
        deadline = time.monotonic() + 120
        while sum(one.inflight for one in store.counts(["large"])):
            assert time.monotonic() < deadline, "leases were not ended"
            times.append(_post_time(service))
        written = _written_bytes(url, service) - written
    slowest = max(times)
    assert slowest < MAX_STALL_SECONDS, slowest
    return (
        f"{count} leases of 1 MB that expire together: the slowest of {len(times):,} small POSTs took {slowest:.2f} s "
        f"(median {statistics.median(times) * 1000:.0f} ms), {written / MIB:.1f} MiB written"
    )


def _run_large_bodies(url: str, *, bodies: int) -> str:
    body = b'{"command": "large", "payload": [%b[]]}' % (b"[[1]]," * (BODY_BYTES // 6))
    with serve_processes(url, 1, QUIET) as [service]:
        alone = [_post_time(service) for _ in range(200)]
        together: list[float] = []
        with _beside(lambda: _post_body(service, body), count=BODY_CLIENTS) as statuses:
            while len(statuses) < bodies:
                together.append(_post_time(service))
        assert set(statuses) <= {202, 413, 503}, statuses
    p50, p99 = statistics.median(together), statistics.quantiles(together, n=100)[98]
    assert p50 < MAX_MEDIAN_SECONDS, p50
    return (
        f"{BODY_CLIENTS} clients with bodies of {BODY_BYTES / 1e6:.1f} MB ({len(statuses)} answered): of "
        f"{len(together):,} small POSTs p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, the slowest "
        f"{max(together):.2f} s; without them p50 {statistics.median(alone) * 1000:.0f} ms"
    )


def _run_locked_file(path: Path) -> str:
    with serve_processes(f"sqlite:///{path}", 1, QUIET) as [service]:
        _post_time(service)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            answer = service.post("/v1/tasks", {"command": "a"})
            took = time.monotonic() - began
        assert answer.status_code == 503
        assert took < MAX_LOCKED_SECONDS, took
        code = answer.json()["code"]
    return f"SQLite locked by another process: {answer.status_code} {code} after {took:.1f} s"


def _run_silent_receivers(url: str) -> str:
    hosts = [SilentHost(f"127.0.0.{number}") for number in (4, 5)]
    try:
        with receiving() as good:
            urls = ",".join(f"{host.url}/" for host in (good, *hosts))
            settings = {
                **QUIET,
                **good.environment,
                "HOLDFAST_WEBHOOKS_URLS": urls,
                "HOLDFAST_WEBHOOKS_NETWORKS": "127.0.0.0/29",
            }
            with serve_processes(url, 1, settings) as [service]:
                for host in hosts:
                    for _ in range(CALLBACKS):
                        _end(service, f"{host.url}/")
                times = []
                for _ in range(20):
                    began = time.monotonic()
                    good.await_callback(_end(service, f"{good.url}/"))
                    times.append(time.monotonic() - began)
    finally:
        for host in hosts:
            host.close()
    assert max(times) < MAX_CALLBACK_SECONDS, times
    assert [host.most_open for host in hosts] == [1, 1]
    return (
        f"{len(hosts)} receivers that never answer, {CALLBACKS} callbacks each: a callback to another host took "
        f"{statistics.median(times):.2f} s (median of {len(times)}), {max(times):.2f} s at most"
    )


def _end(service: ServeProcess, webhook: str) -> str:
    """End a task; return its id."""
    task_id = str(service.post("/v1/tasks", {"command": "a", "webhook": webhook}).json()["taskId"])
    assert service.client.post(f"/v1/tasks/{task_id}/cancel").status_code == 200
    return task_id


def _post_time(service: ServeProcess) -> float:
    began = time.monotonic()
    assert service.post("/v1/tasks", {"command": "small"}).status_code == 202
    return time.monotonic() - began


def _post_body(service: ServeProcess, body: bytes) -> int:
    headers = {"content-type": "application/json"}
    url = f"{service.client.base_url}/v1/tasks"
    return httpx.post(url, content=body, headers=headers, timeout=60, trust_env=False).status_code


@contextlib.contextmanager
def _beside(call: Callable[[], int], *, count: int) -> Iterator[list[int]]:
    """Repeat a call in threads; yield the statuses of its answers."""
    stops, statuses = threading.Event(), []

    def repeat() -> None:
        while not stops.is_set():
            statuses.append(call())

    running = [in_thread(repeat) for _ in range(count)]
    try:
        yield statuses
    finally:
        stops.set()
        for one in running:
            one()


def _written_bytes(url: str, service: ServeProcess) -> int:
    """Return what PostgreSQL has written to its log; of SQLite, what the process has written to all files."""
    if url.startswith("postgresql:"):
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint").fetchone()
        assert row is not None
        return int(row[0])
    lines = Path(f"/proc/{service.process.pid}/io").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))
