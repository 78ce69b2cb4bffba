"""Two replicas of the HTTP service on one store, killed at random while producers and workers repeat their calls."""

from __future__ import annotations

import itertools
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path

import httpx

import holdfast
from holdfast.driver import Ending
from holdfast.testing.servers.postgres import PostgresServer
from tests.soak.ledger_checks import read_ledger
from tests.webhook_receiver import SECRET, Received, Receiver, receiving

SOURCES = Path(__file__).parents[2] / "src"
REPLICAS = 2
BATCH_TASKS = 10
OPEN_TASKS = 100  # of each producer: accepted, and not called back yet
LEASE_SECONDS = 5
TIMEOUT_SECONDS = 600.0
RETRY_SECONDS = 0.05


def run_http(folder: Path, scale: float) -> str:
    """Run it on SQLite and on PostgreSQL; return a summary."""
    kills = max(2, int(30 * scale))
    sqlite = run_http_kills(f"sqlite:///{folder}/killed.db", kills=kills)
    with PostgresServer() as server:
        postgres = run_http_kills(server.create_database("killed"), kills=kills)
    return f"SQLite: {sqlite}; PostgreSQL: {postgres}"


def run_http_kills(url: str, *, kills: int, clients: int = 4) -> str:
    """Kill replicas under the load of as many producers as workers; return a summary. Fails if anything is lost."""
    called: set[str] = set()  # the tasks whose callback has arrived

    def respond(one: Received) -> int:
        called.add(one.body["taskId"])
        return 204

    with receiving(respond) as receiver:
        load = _run_load(url, receiver, called, kills=kills, clients=clients)
        with holdfast.connect(url) as store:
            ended = [row for row in read_ledger(store) if row.queue == "default" and row.ending is Ending.ACKED]
    acked = Counter(row.job_id for row in ended)
    assert load.failures == []
    lost, unknown = load.accepted - set(acked), set(acked) - load.accepted
    assert (lost, unknown) == (set(), set()), "accepted tasks were not completed, or others were"
    twice = {task_id for task_id, count in (acked + load.completed).items() if acked[task_id] > 1 or count > 2}
    assert twice == set(), "tasks were completed twice"
    assert set(load.completed) <= set(acked)
    assert load.accepted == called, "callbacks are missing, or of other tasks"
    assert all(one.is_signed_with(SECRET) for one in receiver.received), "a signature is not valid"
    again = len(receiver.received) - len(called)
    return (
        f"{REPLICAS} replicas, {kills} SIGKILLs, {load.repeated:,} calls repeated, {len(load.accepted):,} tasks: lost "
        f"{len(lost)}, twice {len(twice)}, callbacks lost {len(load.accepted - called)} ({again:,} sent again)"
    )


class _Load:
    """Producers and workers that repeat a call, at another replica, until it is answered."""

    def __init__(self, urls: Sequence[str], webhook: str, called: Collection[str], *, clients: int) -> None:
        self._urls = urls
        self._webhook = webhook
        self._called = called
        self._most_open = OPEN_TASKS * clients
        self.accepted: set[str] = set()
        self.completed: Counter[str] = Counter()  # by answers of the service
        self.repeated = 0
        self.stops_producing = threading.Event()
        self.stops = threading.Event()
        self.failures: list[str] = []

    def produce(self, number: int) -> None:
        """Enqueue batches of tasks, each with a key, so that a repeated call stores nothing twice."""
        with closing(_Caller(self, number)) as caller:
            for count in itertools.count():
                while len(self.accepted) - len(self._called) >= self._most_open:
                    if self.stops_producing.wait(RETRY_SECONDS):
                        return
                if self.stops_producing.is_set():
                    return
                keys = [f"{number}-{count}-{place}" for place in range(BATCH_TASKS)]
                tasks = [
                    {"command": "work", "payload": key, "idempotencyKey": key, "webhook": self._webhook} for key in keys
                ]
                answer = caller.post("/v1/tasks/batch", {"tasks": tasks})
                self.accepted |= {item["taskId"] for item in answer.json()["tasks"]}

    def work(self, number: int) -> None:
        """Claim tasks and complete them."""
        wanted = {"commands": ["work"], "waitSeconds": 1, "leaseSeconds": LEASE_SECONDS, "limit": BATCH_TASKS}
        with closing(_Caller(self, number)) as caller:
            while not self.stops.is_set():
                answer = caller.post("/v1/tasks/claim", wanted)
                for claim in answer.json()["claims"] if answer.status_code == 200 else []:
                    task = claim["task"]
                    body = {"leaseToken": claim["leaseToken"], "status": "COMPLETED", "result": task["payload"]}
                    ended = caller.post(f"/v1/tasks/{task['id']}/result", body)
                    if ended.status_code == 200:
                        self.completed[task["id"]] += 1
                    elif ended.status_code != 409:  # the lease expired while the service was away
                        self.failures.append(ended.text)

    def urls_from(self, number: int) -> itertools.cycle[str]:
        """Return the replicas in turn, another one first for each client."""
        return itertools.cycle([*self._urls[number % REPLICAS :], *self._urls[: number % REPLICAS]])


class _Caller:
    """One client. It goes on with the next replica if one does not answer."""

    def __init__(self, load: _Load, number: int) -> None:
        self._load = load
        self._urls = load.urls_from(number)
        self._url = next(self._urls)
        self._client = httpx.Client(timeout=30.0, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def post(self, path: str, body: object) -> httpx.Response:
        while True:
            try:
                answer = self._client.post(f"{self._url}{path}", json=body)
                if answer.status_code not in (429, 503):
                    return answer
            except httpx.TransportError:
                self._url = next(self._urls)
            self._load.repeated += 1
            time.sleep(RETRY_SECONDS)


def _run_load(url: str, receiver: Receiver, called: set[str], *, kills: int, clients: int) -> _Load:
    """Kill replicas under load, then let them complete and call back all that was accepted."""
    replicas = [_Replica(url, receiver) for _ in range(REPLICAS)]
    load = _Load([replica.url for replica in replicas], f"{receiver.url}/done", called, clients=clients)
    producers = [threading.Thread(target=load.produce, args=(number,), daemon=True) for number in range(clients)]
    workers = [threading.Thread(target=load.work, args=(number,), daemon=True) for number in range(clients)]
    try:
        for replica in replicas:
            await_answer(f"{replica.url}/healthz")
        for thread in (*producers, *workers):
            thread.start()
        _kill_at_random(replicas, kills)
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
        for replica in replicas:
            replica.stop()
    finally:
        load.stops_producing.set()
        load.stops.set()
        for replica in replicas:
            replica.kill()
    return load


def _kill_at_random(replicas: Sequence[_Replica], kills: int) -> None:
    chance = random.Random(7)
    for number in range(kills):
        time.sleep(chance.uniform(0.1, 2.0))
        killed = replicas if number % 5 == 4 else [chance.choice(replicas)]  # from time to time all of them
        for replica in killed:
            replica.kill()
        for replica in killed:
            replica.start()
        for replica in killed:
            await_answer(f"{replica.url}/healthz")


class _Replica:
    """A process at a fixed address, which runs from the beginning on."""

    def __init__(self, url: str, receiver: Receiver) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        self.url = f"http://{address}"
        self._environment = {**os.environ, "PYTHONPATH": str(SOURCES), "HOLDFAST_URL": url, **receiver.environment}
        self._command = [sys.executable, "-m", "holdfast", "serve", "--bind", address, "--log-level", "error"]
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
