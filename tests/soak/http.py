"""The HTTP service, killed at random while producers and workers retry."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import httpx

import holdfast
from holdfast.driver import Ending
from tests.soak.ledger_checks import read_ledger
from tests.webhook_receiver import SECRET, Received, Receiver, receiving

SOURCES = Path(__file__).parents[2] / "src"
PRODUCERS = WORKERS = 4
BATCH_TASKS = 10
LEASE_SECONDS = 5
TIMEOUT_SECONDS = 600.0
RETRY_SECONDS = 0.05


def run_http(folder: Path, scale: float) -> str:
    """Run it; return a summary."""
    kills = max(2, int(30 * scale))
    called: set[str] = set()  # the tasks whose callback has arrived

    def respond(one: Received) -> int:
        called.add(one.body["taskId"])
        return 204

    with receiving(respond) as receiver:
        tasks, repeated = _run_kills(folder, receiver, called, kills=kills)
    again = len(receiver.received) - tasks
    return (
        f"{kills} SIGKILLs under load, {repeated:,} calls repeated: {tasks:,} tasks accepted, 0 lost, 0 completed "
        f"twice; {tasks + again:,} callbacks delivered, {again:,} of them again, all with valid signatures, 0 missing"
    )


class _Load:
    """Producers and workers that repeat a call until it is answered."""

    def __init__(self, url: str, webhook: str) -> None:
        self._url = url
        self._webhook = webhook
        self.accepted: set[str] = set()
        self.completed: Counter[str] = Counter()  # by answers of the service
        self.repeated = 0
        self.stops_producing = threading.Event()
        self.stops = threading.Event()
        self.failures: list[str] = []

    def produce(self, number: int) -> None:
        """Enqueue tasks, one by one and in batches, each with a key, so that a repeated call stores nothing twice."""
        with self._client() as client:
            count = 0
            while not self.stops_producing.is_set():
                keys = [f"{number}-{count + place}" for place in range(BATCH_TASKS)]
                count += BATCH_TASKS
                tasks = [
                    {"command": "work", "payload": key, "idempotencyKey": key, "webhook": self._webhook} for key in keys
                ]
                answer = self._post(client, "/v1/tasks/batch", {"tasks": tasks})
                self.accepted |= {item["taskId"] for item in answer.json()["items"]}

    def work(self) -> None:
        """Claim tasks and complete them."""
        with self._client() as client:
            while not self.stops.is_set():
                wanted = {"commands": ["work"], "waitSeconds": 1, "leaseSeconds": LEASE_SECONDS, "limit": BATCH_TASKS}
                answer = self._post(client, "/v1/tasks/claim", wanted)
                for claim in answer.json()["claims"] if answer.status_code == 200 else []:
                    body = {
                        "leaseToken": claim["leaseToken"],
                        "status": "COMPLETED",
                        "result": claim["task"]["payload"],
                    }
                    ended = self._post(client, f"/v1/tasks/{claim['task']['id']}/result", body)
                    if ended.status_code == 200:
                        self.completed[claim["task"]["id"]] += 1
                    elif ended.status_code != 409:  # the lease expired while the service was away
                        self.failures.append(ended.text)

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self._url, timeout=30.0, trust_env=False)

    def _post(self, client: httpx.Client, path: str, body: object) -> httpx.Response:
        while True:
            try:
                answer = client.post(path, json=body)
                if answer.status_code not in (429, 503):
                    return answer
            except httpx.TransportError:
                pass
            self.repeated += 1
            time.sleep(RETRY_SECONDS)


def _run_kills(folder: Path, receiver: Receiver, called: set[str], *, kills: int) -> tuple[int, int]:
    url = f"sqlite:///{folder}/killed.db"
    service = _KilledService(url, receiver)
    load = _Load(service.url, f"{receiver.url}/done")
    try:
        _run_load(service, load, url, called, kills=kills)
    finally:
        load.stops_producing.set()
        load.stops.set()
        service.kill()
    with holdfast.connect(url) as store:
        acked = Counter(
            row.job_id for row in read_ledger(store) if row.ending is Ending.ACKED and row.queue == "default"
        )
    assert load.failures == []
    assert set(acked) == load.accepted, "an accepted task was not completed, or one that was not accepted was"
    assert set(acked.values()) == {1}, "a task was completed twice"
    assert set(load.completed) <= set(acked)
    assert set(load.completed.values()) <= {1}, "the service has told two workers that they completed one task"
    assert called == load.accepted, "a callback is of another task"
    assert all(one.is_signed_with(SECRET) for one in receiver.received), "a signature is not valid"
    return len(load.accepted), load.repeated


def _run_load(service: _KilledService, load: _Load, url: str, called: set[str], *, kills: int) -> None:
    """Kill the service under load, then let it complete and call back all that was accepted."""
    producers = [threading.Thread(target=load.produce, args=(number,), daemon=True) for number in range(PRODUCERS)]
    workers = [threading.Thread(target=load.work, daemon=True) for _ in range(WORKERS)]
    for thread in (*producers, *workers):
        thread.start()
    chance = random.Random(7)
    for _ in range(kills):
        await_answer(f"{service.url}/healthz")
        time.sleep(chance.uniform(0.1, 2.0))
        service.kill()
        service.start()
    load.stops_producing.set()
    for producer in producers:
        producer.join(TIMEOUT_SECONDS)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with holdfast.connect(url) as store:
        while sum(count.done for count in store.counts(["default"])) < len(load.accepted):
            assert time.monotonic() < deadline, "tasks were lost"
            time.sleep(0.2)
    load.stops.set()
    for worker in workers:
        worker.join(TIMEOUT_SECONDS)
    while len(called) < len(load.accepted):
        assert time.monotonic() < deadline, "callbacks were lost"
        time.sleep(0.2)
    service.stop()


class _KilledService:
    """A process at a fixed address, which runs from the beginning on."""

    def __init__(self, url: str, receiver: Receiver) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        self.url = f"http://{address}"
        self._environment = {**os.environ, "PYTHONPATH": str(SOURCES), "HOLDFAST_URL": url, **receiver.environment}
        self._command = [sys.executable, "-m", "holdfast", "serve", "--bind", address, "--log-level", "warning"]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, env=self._environment, stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        """Kill the process, if it runs."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End the process; it must end by itself."""
        self._process.terminate()
        assert self._process.wait(TIMEOUT_SECONDS) == 0


def await_answer(url: str) -> None:
    """Wait until the service answers."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            assert httpx.get(url, trust_env=False).status_code == 200
        except httpx.TransportError:
            assert time.monotonic() < deadline, "the service does not start"
            time.sleep(RETRY_SECONDS)
        else:
            return
