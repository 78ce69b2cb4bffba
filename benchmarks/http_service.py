"""How much does the HTTP service cost beyond a bare endpoint that answers the same JSON, and beyond its driver?

Single requests are compared with one process of uvicorn that parses and answers the same JSON, over the same number of
connections, in turns. The bare side keeps nothing: the difference is everything that the service checks, and the store.
Batches over one connection are compared with the calls of the driver behind them, made in this process, in turns.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

import holdfast
from benchmarks.comparison import (
    Comparison,
    compare_latency,
    compare_single_calls,
    compare_throughput,
    percentile,
)
from benchmarks.jobs import QUEUE, TYPE, make_records
from holdfast.driver import HOUR, Ack, Lease, Retry, Store
from holdfast.testing.servers.postgres import PostgresServer

CONNECTIONS = 32
TASKS = 2000  # of one round
PRODUCER_TASKS = 500  # of one round with one producer
BATCH_TASKS = 100
BATCHES = TASKS // BATCH_TASKS  # of one round
BATCH_ROUNDS = 7
ROUNDS = 5
LATENCY_SECONDS = 2.0  # of one round at half load
PAYLOAD = {"to": "ada@example.org", "subject": "Hello", "lines": ["one", "two", "three"]}
ADDRESS = re.compile(r"(http://127\.0\.0\.1:(\d+))")
TIMEOUT_SECONDS = 60.0
SERVE = [sys.executable, "-m", "holdfast", "serve", "--bind", "127.0.0.1:0", "--log-level", "warning"]
BARE = [sys.executable, "-m", "benchmarks.bare_http"]


def measure(folder: Path) -> Iterator[Comparison]:
    with _server(BARE) as bare_port, PostgresServer() as postgres:
        for name, urls in {
            "SQLite": [f"sqlite:///{folder}/{side}.db" for side in ("service", "driver")],
            "PostgreSQL": [postgres.create_database(side) for side in ("service", "driver")],
        }.items():
            with _server([*SERVE, "--url", urls[0]]) as port, holdfast.connect(urls[1]) as store:
                ours, other = Side(port), Side(bare_port)
                for call in ("create", "claim", "complete"):
                    yield compare_single_calls(
                        f"HTTP on {name}: {call}, one task per request / bare Starlette with the same JSON",
                        calls=TASKS,
                        rounds=ROUNDS,
                        ours=partial(ours.run, call),
                        other=partial(other.run, call),
                        target=0.5,
                    )
                yield from _compare_batches(name, BatchSide(port), DriverSide(store))
                if name == "SQLite":
                    yield from _producer(ours)
                    yield from _latency(ours, other)


def _producer(ours: Side) -> Iterator[Comparison]:
    yield compare_throughput(
        f"HTTP: one producer creates tasks in batches of {BATCH_TASKS} / one by one",
        jobs=PRODUCER_TASKS,
        rounds=ROUNDS,
        ours=lambda: ours.create_alone(BATCH_TASKS),
        other=lambda: ours.create_alone(1),
        target=10.0,
    )


def _compare_batches(name: str, ours: BatchSide, other: DriverSide) -> Iterator[Comparison]:
    """Compare each call, and the cycle of a task, from the same rounds."""
    rounds = [(ours.run(), other.run()) for _ in range(BATCH_ROUNDS)]
    for calls in (*([one] for one in ours.calls), ["create", "claim", "result"]):
        sums = [tuple(sum(side[call] for call in calls) for side in pair) for pair in rounds]
        yield compare_single_calls(
            f"HTTP on {name}: {', '.join(calls)} in batches of {BATCH_TASKS} / the driver",
            calls=TASKS,
            rounds=BATCH_ROUNDS,
            ours=iter([one for one, _ in sums]).__next__,
            other=iter([one for _, one in sums]).__next__,
            target=0.6,
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


class BatchSide:
    """Sends batches over one connection. A round leads TASKS tasks through all calls; one nack makes a second claim."""

    calls = ("create", "claim", "heartbeat", "nack", "result")

    def __init__(self, port: int) -> None:
        self._port = port

    def run(self) -> dict[str, float]:
        """Return the seconds of each call. Messages are encoded and decoded outside of the time."""
        task = {"command": "batch", "payload": PAYLOAD}
        claim = {"commands": ["batch"], "limit": BATCH_TASKS, "leaseSeconds": 3600}
        seconds = {"create": self._send("/v1/tasks/batch", [{"tasks": [task] * BATCH_TASKS}] * BATCHES)[0]}
        seconds["claim"], claimed = self._send("/v1/tasks/claim", [claim] * BATCHES)
        seconds["heartbeat"] = self._send("/v1/tasks/heartbeat/batch", _leases(claimed, "tasks"))[0]
        seconds["nack"] = self._send("/v1/tasks/nack/batch", _leases(claimed, "tasks", delaySeconds=0))[0]
        _, claimed = self._send("/v1/tasks/claim", [claim] * BATCHES)
        seconds["result"] = self._send("/v1/tasks/result/batch", _leases(claimed, "results", status="COMPLETED"))[0]
        return seconds

    def _send(self, path: str, bodies: Sequence[object]) -> tuple[float, list[Any]]:
        seconds, answers = asyncio.run(_send_all(self._port, [_encode(path, body) for body in bodies], 1))
        for answer in answers:
            [items] = answer.values()
            assert len(items) == BATCH_TASKS
            assert not any("problem" in item for item in items)
        return seconds, answers


def _leases(claimed: Sequence[Any], word: str, **fields: object) -> list[object]:
    return [
        {word: [{"taskId": one["task"]["id"], "leaseToken": one["leaseToken"], **fields} for one in answer["claims"]]}
        for answer in claimed
    ]


class DriverSide:
    """Makes the same calls as ``BatchSide`` with the driver. Records and settlements are made outside of the time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def run(self) -> dict[str, float]:
        """Return the seconds of each call."""
        store, payload = self._store, msgspec.json.encode(PAYLOAD)
        records = [make_records(BATCH_TASKS, payload=payload) for _ in range(BATCHES)]
        seconds = {"create": _time(store.enqueue, records)[0]}
        seconds["claim"], leases = self._claim()
        seconds["heartbeat"] = _time(partial(store.extend, lease_for=HOUR), leases)[0]
        seconds["nack"] = _time(store.settle, [[Retry(one, error="no") for one in batch] for batch in leases])[0]
        _, leases = self._claim()
        seconds["result"] = _time(store.settle, [[Ack(one) for one in batch] for batch in leases])[0]
        return seconds

    def _claim(self) -> tuple[float, list[list[Lease]]]:
        reserve = partial(self._store.reserve, limit=BATCH_TASKS, lease_for=HOUR, types=[TYPE])
        seconds, batches = _time(reserve, [[QUEUE]] * BATCHES)
        return seconds, [[one.lease for one in batch] for batch in batches]


def _time(call: Callable[[Any], list[Any]], batches: Sequence[Any]) -> tuple[float, list[list[Any]]]:
    began = time.perf_counter()
    answers = [call(batch) for batch in batches]
    seconds = time.perf_counter() - began
    assert all(len(answer) == BATCH_TASKS for answer in answers)
    return seconds, answers


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
