"""The HTTP service with three times as many requests as it answers at a time: it refuses, stays small, and settles."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx

import holdfast
from holdfast.driver import Ending
from tests.service.test_processes import ServeProcess, serve_processes
from tests.soak.ledger_checks import read_ledger

LOAD = 3  # producers, as a multiple of the requests that the service answers at the same time
WORKERS = 4
DRAIN_TASKS = 100  # in one claim, after the overload
PAUSE_SECONDS = 0.2  # of a refused producer: shorter than it was told, so that the overload lasts
TIMEOUT_SECONDS = 600.0
MIB = 1 << 20


def run_http_overload_soak(folder: Path, scale: float) -> str:
    """Run it with small payloads, and with large ones; return a summary."""
    small = run_http_overload(folder / "small", capacity=300, refusals=int(20_000 * scale), settles=int(200 * scale))
    large = run_http_overload(
        folder / "large", capacity=100, refusals=int(5_000 * scale), settles=int(50 * scale), payload_bytes=512 << 10
    )
    return f"{small}; with payloads of 512 KiB, {large}"


def run_http_overload(
    folder: Path, *, capacity: int, refusals: int, settles: int, payload_bytes: int = 16 << 10
) -> str:
    """Overload a service until it has refused and settled so many requests, then complete every accepted task."""
    folder.mkdir(exist_ok=True)
    url = f"sqlite:///{folder}/jobs.db"
    with serve_processes(url, 1, {"HOLDFAST_SERVE_MAX_REQUESTS": str(capacity)}) as [service]:
        assert service.client.get("/readyz").status_code == 200
        idle = _memory(service, "VmRSS")
        overload = Overload(service, producers=LOAD * capacity, payload_bytes=payload_bytes)
        overload.run(until=lambda: overload.statuses[503] >= refusals and overload.settled >= settles)
        peak = _memory(service, "VmHWM")
        most = 2 * idle + 200 * MIB
        assert peak < most, f"{peak / MIB:.0f} MiB, and {idle / MIB:.0f} MiB when idle"
        drained = _drain(service, len(overload.accepted) - overload.settled)
    with holdfast.connect(url) as store:
        acked = Counter(row.job_id for row in read_ledger(store) if row.ending is Ending.ACKED)
    assert set(acked) == overload.accepted
    assert set(acked.values()) == {1}
    return (
        f"{LOAD * capacity} producers on {capacity} requests at a time: {len(overload.accepted):,} tasks accepted, "
        f"{overload.statuses[503]:,} requests refused with Retry-After, {overload.settled:,} tasks settled meanwhile "
        f"without a refusal and {drained:,} later; {idle / MIB:.0f} MiB idle, at most {peak / MIB:.0f} MiB of "
        f"{most / MIB:.0f} MiB, twice idle + 200 MiB"
    )


class Overload:
    """Producers that send their next request at once, and workers among them."""

    def __init__(self, service: ServeProcess, *, producers: int, payload_bytes: int) -> None:
        self._url = service.client.base_url
        self._body = json.dumps({"command": "work", "payload": "x" * payload_bytes}).encode()
        self._producers = producers
        self.accepted: set[str] = set()
        self.statuses: Counter[int] = Counter()  # of the answers for producers
        self.settled = 0
        self._stops = threading.Event()
        self._failures: list[BaseException] = []

    def run(self, *, until: Callable[[], bool]) -> None:
        """Send requests until the condition holds; raise the first failure."""
        threads = [threading.Thread(target=self._guarded, args=(self._work,)) for _ in range(WORKERS)]
        threads.append(threading.Thread(target=self._guarded, args=(lambda: asyncio.run(self._produce()),)))
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not until() and not self._failures and time.monotonic() < deadline:
            time.sleep(0.05)
        self._stops.set()
        for thread in threads:
            thread.join(TIMEOUT_SECONDS)
        if self._failures:
            raise self._failures[0]
        assert until(), f"{self.statuses}, {self.settled} tasks settled"
        assert set(self.statuses) <= {202, 503}, self.statuses

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as failure:
            self._failures.append(failure)

    async def _produce(self) -> None:
        await asyncio.gather(*(self._send_tasks() for _ in range(self._producers)))

    async def _send_tasks(self) -> None:
        """Send one task after another; written by hand, because a client library is slower than the service."""
        head = (
            f"POST /v1/tasks HTTP/1.1\r\nhost: {self._url.netloc.decode()}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(self._body)}\r\n\r\n"
        )
        reader, writer = await asyncio.open_connection(self._url.host, self._url.port)
        while not self._stops.is_set():
            writer.write(head.encode() + self._body)
            await writer.drain()
            status, headers, content = await _read_answer(reader)
            self.statuses[status] += 1
            if status == 202:
                self.accepted.add(json.loads(content)["taskId"])
            else:
                assert int(headers["retry-after"]) >= 1, content
                await asyncio.sleep(PAUSE_SECONDS)
        writer.close()

    def _work(self) -> None:
        """Claim tasks and complete them. A refused claim is repeated; no result may be refused."""
        with httpx.Client(base_url=self._url, timeout=TIMEOUT_SECONDS, trust_env=False) as client:
            while not self._stops.is_set():
                answer = client.post("/v1/tasks/claim", json={"commands": ["work"], "leaseSeconds": 600})
                if answer.status_code == 200:
                    claim = answer.json()
                    result = {"leaseToken": claim["leaseToken"], "status": "COMPLETED"}
                    ended = client.post(f"/v1/tasks/{claim['task']['id']}/result", json=result)
                    assert ended.status_code == 200, ended.text
                    self.settled += 1
                else:
                    assert answer.status_code in (204, 503), answer.text


async def _read_answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    return int(head[0].split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


def _drain(service: ServeProcess, tasks: int) -> int:
    """Complete the tasks that are left, in batches."""
    left = tasks
    while left > 0:
        answer = service.post("/v1/tasks/claim", {"limit": DRAIN_TASKS, "waitSeconds": 5})
        assert answer.status_code == 200, f"{left} tasks are lost: {answer.text}"
        results = [
            {"taskId": claim["task"]["id"], "leaseToken": claim["leaseToken"], "status": "COMPLETED"}
            for claim in answer.json()["claims"]
        ]
        items = service.post("/v1/tasks/result/batch", {"results": results}).json()["results"]
        assert {item["status"] for item in items} == {"COMPLETED"}
        left -= len(items)
    return tasks


def _memory(service: ServeProcess, field: str) -> int:
    """Return the resident bytes of the process: now (VmRSS), or at most since its start (VmHWM)."""
    status = Path(f"/proc/{service.process.pid}/status").read_text(encoding="utf-8")
    [line] = [line for line in status.splitlines() if line.startswith(f"{field}:")]
    return int(line.split()[1]) * 1024
