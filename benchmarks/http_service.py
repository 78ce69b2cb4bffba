"""How much does the HTTP service cost beyond a bare endpoint that parses and answers the same JSON?

Both sides are one process with uvicorn. The same requests are sent over the same number of connections, in turns. The
bare side keeps nothing: the difference is everything that the service checks, and the durable store.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.comparison import Comparison, compare_latency, compare_throughput, percentile

CONNECTIONS = 32
TASKS = 2000  # of one round
PRODUCER_TASKS = 500  # of one round with one producer
BATCH_TASKS = 100
ROUNDS = 5
LATENCY_SECONDS = 2.0  # of one round at half load
PAYLOAD = {"to": "ada@example.org", "subject": "Hello", "lines": ["one", "two", "three"]}
ADDRESS = re.compile(r"(http://127\.0\.0\.1:(\d+))")
TIMEOUT_SECONDS = 60.0


def measure(folder: Path) -> Iterator[Comparison]:
    serve = [sys.executable, "-m", "holdfast", "serve", "--bind", "127.0.0.1:0", "--log-level", "warning"]
    bare = [sys.executable, "-m", "benchmarks.bare_http"]
    with _server([*serve, "--url", f"sqlite:///{folder}/jobs.db"]) as port, _server(bare) as bare_port:
        ours, other = Side(port), Side(bare_port)
        for name in ("create", "claim", "complete"):
            yield _compare(name, ours, other)
        yield compare_throughput(
            f"HTTP: one producer creates tasks in batches of {BATCH_TASKS} / one by one",
            jobs=PRODUCER_TASKS,
            rounds=ROUNDS,
            ours=lambda: ours.create_alone(BATCH_TASKS),
            other=lambda: ours.create_alone(1),
            target=10.0,
        )
        yield from _latency(ours, other)


def _compare(name: str, ours: Side, other: Side) -> Comparison:
    return compare_throughput(
        f"HTTP: {name}, one task per request / bare Starlette with the same JSON",
        jobs=TASKS,
        rounds=ROUNDS,
        ours=lambda: ours.run(name),
        other=lambda: other.run(name),
        target=0.4,
    )


def _latency(ours: Side, other: Side) -> Iterator[Comparison]:
    """Measure creates at half of the highest rate of the service; both sides get the same rate, in turns."""
    rate = TASKS / min(ours.run("create") for _ in range(ROUNDS)) / 2
    our_seconds: list[float] = []
    other_seconds: list[float] = []
    for _ in range(ROUNDS):
        our_seconds += ours.create_at(rate, LATENCY_SECONDS)
        other_seconds += other.create_at(rate, LATENCY_SECONDS)
    question = f"HTTP: create at half load ({rate:,.0f} requests/s)"
    yield compare_latency(
        f"{question}: p50 / bare Starlette", ours=our_seconds, other=other_seconds, target=10.0, share=0.5
    )
    p50, p99 = percentile(our_seconds, 0.5), percentile(our_seconds, 0.99)
    yield Comparison(
        question=f"{question}: p99 / p50",
        ratio=p99 / p50,
        target=20.0,
        at_least=False,
        ours=f"p99 {p99 * 1000:.2f} ms",
        other=f"p50 {p50 * 1000:.2f} ms",
    )


class Side:
    """Sends requests to one server. A round of ``create`` leaves tasks for ``claim``, and that for ``complete``."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._created = 0
        self._claims: list[dict[str, Any]] = []

    def run(self, name: str) -> float:
        """Make the calls of one round; return the seconds. What a round needs is made before, not timed."""
        if name == "create":
            return self._create()
        while self._created < TASKS:
            self._create()
        if name == "claim":
            return self._claim()
        if not self._claims:
            self._claim()
        claims, self._claims = self._claims, []
        requests = [
            (f"/v1/tasks/{claim['task']['id']}/result", {"leaseToken": claim["leaseToken"], "status": "COMPLETED"})
            for claim in claims
        ]
        return self._timed(requests)[0]

    def create_alone(self, tasks_per_request: int) -> float:
        """Create PRODUCER_TASKS tasks over one connection."""
        task = {"command": "alone", "payload": PAYLOAD}
        single = tasks_per_request == 1
        request = ("/v1/tasks", task) if single else ("/v1/tasks/batch", {"tasks": [task] * tasks_per_request})
        return self._timed([request] * (PRODUCER_TASKS // tasks_per_request), connections=1)[0]

    def create_at(self, rate: float, seconds: float) -> list[float]:
        """Return the seconds of each request, from when it was due."""
        return asyncio.run(_send_at(self._port, rate, int(rate * seconds)))

    def _create(self) -> float:
        self._created += TASKS
        return self._timed([("/v1/tasks", {"command": "work", "payload": PAYLOAD})] * TASKS)[0]

    def _claim(self) -> float:
        self._created -= TASKS
        wanted = {"commands": ["work"], "leaseSeconds": 3600}
        seconds, self._claims = self._timed([("/v1/tasks/claim", wanted)] * TASKS)
        return seconds

    def _timed(self, requests: Sequence[tuple[str, object]], connections: int = CONNECTIONS) -> tuple[float, list[Any]]:
        encoded = [_encode(path, body) for path, body in requests]
        return asyncio.run(_send_all(self._port, encoded, connections))


async def _send_all(port: int, requests: Sequence[bytes], connections: int) -> tuple[float, list[Any]]:
    """Send the requests over some connections, each one after its last answer; return the seconds and the answers."""
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(connections)]
    waiting, contents = iter(requests), []

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for request in waiting:
            writer.write(request)
            contents.append(await _read(reader))

    began = time.perf_counter()
    await asyncio.gather(*(send(*stream) for stream in streams))
    seconds = time.perf_counter() - began
    for _, writer in streams:
        writer.close()
    return seconds, [msgspec.json.decode(content) for content in contents]


async def _send_at(port: int, rate: float, count: int) -> list[float]:
    """Create tasks when they are due, over as many connections as are needed."""
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    request = _encode("/v1/tasks", {"command": "timed", "payload": PAYLOAD})
    latencies: list[float] = []

    async def send(due: float) -> None:
        reader, writer = free.pop() if free else await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        await _read(reader)
        latencies.append(time.perf_counter() - due)
        free.append((reader, writer))

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(send(due))
    for _, writer in free:
        writer.close()
    return latencies


def _encode(path: str, body: object) -> bytes:
    content = msgspec.json.encode(body)
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Return the content of an answer, which must be a success. By hand: a client library is slower than a server."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")), head
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return await reader.readexactly(int(length))


@contextmanager
def _server(command: list[str]) -> Iterator[int]:
    """Start a server that prints its address; return its port."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = ADDRESS.search(process.stdout.readline())
            assert found is not None
            yield int(found[2])
        finally:
            process.terminate()
            process.wait(TIMEOUT_SECONDS)
