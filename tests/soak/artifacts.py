"""Workers that upload artifacts to a service which is killed at random: what a completion has named is there, whole."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx

import holdfast
from holdfast.artifacts.collector import YOUNG, ArtifactCollector
from holdfast.artifacts.folder import BlobFolder
from holdfast.artifacts.manifest import MANIFEST_KIND
from holdfast.artifacts.usage import Usage, read_usage
from holdfast.clock import ManualClock, SystemClock
from holdfast.drivers.requests import Purge, Scan
from tests.soak.http import RETRY_SECONDS, SOURCES, TIMEOUT_SECONDS, await_answer

WORKERS = 4
LEASE_SECONDS = 5
LARGEST_BYTES = 3 << 20
NAMES = ("a", "b", "c")


class _Workers:
    """Workers that repeat a call until it is answered."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.completed: dict[str, dict[str, str]] = {}  # by task id: digests by name
        self.stale = 0
        self.stops = threading.Event()
        self.failures: list[str] = []

    def work(self, seed: int) -> None:
        """Claim tasks, upload their artifacts and complete them."""
        chance = random.Random(seed)
        with httpx.Client(base_url=self._url, timeout=30.0, trust_env=False) as client:
            while not self.stops.is_set():
                wanted = {"commands": ["file"], "waitSeconds": 1, "leaseSeconds": LEASE_SECONDS}
                answer = self._send(client, "POST", "/v1/tasks/claim", json=wanted)
                if answer.status_code == 200:
                    self._complete(client, chance, answer.json())

    def _complete(self, client: httpx.Client, chance: random.Random, claim: dict) -> None:
        task_id, token = claim["task"]["id"], claim["leaseToken"]
        digests = {}
        for name in NAMES:
            content = chance.randbytes(chance.randrange(LARGEST_BYTES))
            path = f"/v1/tasks/{task_id}/artifacts/{name}"
            answer = self._send(client, "PUT", path, content=content, headers={"lease-token": token})
            if self._is_refused(answer):
                return
            digests[name] = hashlib.sha256(content).hexdigest()
        body = {"leaseToken": token, "status": "COMPLETED", "artifacts": list(NAMES)}
        if not self._is_refused(self._send(client, "POST", f"/v1/tasks/{task_id}/result", json=body)):
            self.completed[task_id] = digests

    def _is_refused(self, answer: httpx.Response) -> bool:
        if answer.status_code == 409:  # the lease expired while the service was away
            self.stale += 1
        elif answer.status_code not in (200, 201):
            self.failures.append(answer.text)
        return answer.status_code not in (200, 201)

    def _send(self, client: httpx.Client, method: str, path: str, **options: object) -> httpx.Response:
        while True:
            try:
                answer = client.request(method, path, **options)  # type: ignore[arg-type] # keywords of httpx
                if answer.status_code not in (429, 503):
                    return answer
            except httpx.TransportError:
                pass
            time.sleep(RETRY_SECONDS)


def run_artifacts(folder: Path, scale: float) -> str:
    """Kill the service at random; return a summary."""
    kills, tasks = max(2, int(30 * scale)), max(20, int(1000 * scale))
    url, files = f"sqlite:///{folder}/jobs.db", folder / "artifacts"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with holdfast.connect(url) as store:
        request = holdfast.JobRequest(type="file", max_attempts=1000)
        ids = [one.id for one in holdfast.Client(store).enqueue([request] * tasks)]
        workers = _Workers(f"http://{address}")
        threads = [threading.Thread(target=workers.work, args=(seed,)) for seed in range(WORKERS)]
        process = _serve(url, address, files)
        for thread in threads:
            thread.start()
        chance = random.Random(11)
        for _ in range(kills):
            await_answer(f"http://{address}/healthz")
            time.sleep(chance.uniform(0.1, 2.0))
            process.send_signal(signal.SIGKILL)
            process.wait()
            process = _serve(url, address, files)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while sum(count.done for count in store.counts()) < tasks:
            assert time.monotonic() < deadline, "tasks were lost"
            time.sleep(0.2)
        workers.stops.set()
        for thread in threads:
            thread.join(TIMEOUT_SECONDS)
        assert workers.failures == []
        count = _check_downloads(f"http://{address}", ids, workers.completed)
        process.terminate()
        process.wait(TIMEOUT_SECONDS)
        left = _collect(store, files, ids)
    return (
        f"{kills} SIGKILLs while {WORKERS} workers uploaded: {count:,} artifacts of {tasks:,} tasks are whole, "
        f"{workers.stale:,} stale calls changed nothing, {left:,} files that no row named were removed"
    )


def _check_downloads(url: str, ids: list[str], completed: dict[str, dict[str, str]]) -> int:
    """Read every artifact; a task whose completion had no answer has all its artifacts, too."""
    count = 0
    with httpx.Client(base_url=url, timeout=60.0, trust_env=False) as client:
        for task_id in ids:
            listed = client.get(f"/v1/tasks/{task_id}/artifacts").json()["artifacts"]
            digests = {one["name"]: one["sha256"] for one in listed}
            assert sorted(digests) == sorted(NAMES), (task_id, digests)
            assert completed.get(task_id, digests) == digests, "another attempt's artifacts are shown"
            for name, digest in digests.items():
                content = client.get(f"/v1/tasks/{task_id}/artifacts/{name}").content
                assert hashlib.sha256(content).hexdigest() == digest, (task_id, name)
                count += 1
    return count


def _collect(store: holdfast.driver.Store, files: Path, ids: list[str]) -> int:
    """Remove what no row names, then all tasks; return how many files no row had named."""
    before = _count(files)
    later = ManualClock(SystemClock().now() + 2 * YOUNG)
    collector = ArtifactCollector(store, BlobFolder(files), space="main", clock=later)
    while collector.step() or collector.is_in_a_round:
        pass
    assert _count(files) == len(NAMES) * len(ids)
    assert read_usage(store)[0].count == len(NAMES) * len(ids)
    store.do(Purge(job_ids=ids))
    while collector.step() or collector.is_in_a_round:
        pass
    assert (_count(files), store.do(Scan(kind=MANIFEST_KIND))) == (0, [])
    assert read_usage(store)[0] == Usage()
    return before - len(NAMES) * len(ids)


def _count(files: Path) -> int:
    return sum(file.is_file() for file in files.rglob("*"))


def _serve(url: str, address: str, files: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "HOLDFAST_URL": url, "HOLDFAST_ARTIFACTS": str(files)}
    command = [sys.executable, "-m", "holdfast", "serve", "--bind", address, "--log-level", "warning"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
