"""The HTTP service at the limit of its files, and with a database that is stopped (SIGSTOP), in numbers."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import time
from collections import Counter
from pathlib import Path

import httpx

from holdfast.testing.servers.postgres import PostgresServer
from tests.processes import descendants
from tests.service.http_service import in_thread
from tests.service.test_file_limit import CLAIM, MAX_LOG_BYTES
from tests.service.test_hostile_requests import HEALTH
from tests.service.test_processes import serve_processes

FILES, WORKERS = 1024, 1100
PROBE_PAUSE_SECONDS = 0.2
MAX_CALL_SECONDS = 15.0
MAX_STOP_SECONDS = 25.0  # the drain and five seconds


def run_http_limits(folder: Path, scale: float) -> str:
    """Run both; return a summary."""
    return f"{_run_files(folder, probes=max(20, int(100 * scale)))}; {_run_stopped_database()}"


def _run_files(folder: Path, *, probes: int) -> str:
    log = folder / "log"
    with (
        log.open("w") as stderr,
        serve_processes(
            f"sqlite:///{folder}/files.db",
            1,
            stderr=stderr,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
        ) as [service],
    ):
        pid, url = service.process.pid, service.client.base_url
        used, began = _processor_seconds(pid), time.monotonic()
        answers = asyncio.run(_probe_beside_workers(url, probes))
        share = (_processor_seconds(pid) - used) / (time.monotonic() - began)
        assert answers[b"200"] >= probes * 0.75, answers
        assert share < 0.5, share
        assert log.stat().st_size < MAX_LOG_BYTES
        return (
            f"{WORKERS:,} workers that reconnect to {FILES:,} files: {answers[b'200']} of {probes} probes "
            f"answered, {share:.0%} of a core, {log.stat().st_size} bytes of log"
        )


async def _probe_beside_workers(url: httpx.URL, probes: int) -> Counter[bytes]:
    """Return the statuses of probes; of a closed connection, an empty one."""
    workers = [asyncio.create_task(_claim_again_and_again(url)) for _ in range(WORKERS)]
    answers: Counter[bytes] = Counter()
    for _ in range(probes):
        await asyncio.sleep(PROBE_PAUSE_SECONDS)
        answers[await _status(url, HEALTH)] += 1
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    return answers


async def _claim_again_and_again(url: httpx.URL) -> None:
    while True:
        await _status(url, CLAIM)
        await asyncio.sleep(1)  # as Retry-After says


async def _status(url: httpx.URL, request: bytes) -> bytes:
    try:
        reader, writer = await asyncio.open_connection(url.host, url.port)
    except OSError:
        return b""
    try:
        writer.write(request)
        return (await reader.read(65536))[9:12]
    except OSError:
        return b""
    finally:
        writer.close()


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _run_stopped_database() -> str:
    with PostgresServer() as server, serve_processes(server.create_database("stopped"), 1) as [service]:

        def timed(method: str, path: str, body: object) -> tuple[int, float]:
            began = time.monotonic()
            return service.client.request(method, path, json=body).status_code, time.monotonic() - began

        for answer in [in_thread(lambda: timed("GET", "/v1/tasks/x", None)) for _ in range(12)]:
            assert answer()[0] == 404
        stopped = [server.pid, *descendants(server.pid)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            calls = [in_thread(lambda: timed("POST", "/v1/tasks", {"command": "a"})) for _ in range(40)]
            calls += [in_thread(lambda: timed("GET", "/v1/queues", None)) for _ in range(10)]
            answers = [call() for call in calls]
            assert {status for status, _ in answers} == {503}, answers
            slowest = max(seconds for _, seconds in answers)
            assert slowest < MAX_CALL_SECONDS, slowest
            began = time.monotonic()
            service.process.send_signal(signal.SIGTERM)
            assert service.process.wait(MAX_STOP_SECONDS) == 0
            took = time.monotonic() - began
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
    return (
        f"PostgreSQL stopped: {len(answers)} calls ended with 503 after {slowest:.1f} s at most, SIGTERM ended the "
        f"service after {took:.1f} s"
    )
