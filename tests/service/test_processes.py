"""``holdfast serve`` as a process: two on one database are one service, and a signal answers what waits."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast import connect
from holdfast.artifacts.collector import ArtifactCollector
from holdfast.artifacts.folder import BlobFolder
from holdfast.clock import HOUR, ManualClock, SystemClock
from holdfast.model.job import JobRecord
from holdfast.model.settlement import Ack
from tests.service.http_service import TIMEOUT_SECONDS, in_thread
from tests.soak.http import run_http_kills
from tests.waiting import wait_until
from tests.webhook_receiver import SECRET, receiving

SOURCES = Path(__file__).parents[2] / "src"


class ServeProcess:
    """A process that answers, and a client of it."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.client = httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS, trust_env=False)

    def post(self, path: str, body: object) -> httpx.Response:
        return self.client.post(path, json=body)


@contextmanager
def serve_processes(
    url: str, count: int, settings: Mapping[str, str] | None = None, *, bind: str = "127.0.0.1:0", **popen: Any
) -> Iterator[list[ServeProcess]]:
    """Start processes together, each on a free port. ``popen`` are more arguments of ``Popen``."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "HOLDFAST_URL": url, **(settings or {})}
    command = [sys.executable, "-m", "holdfast", "serve", "--bind", bind]
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **popen)
            stack.callback(process.wait, TIMEOUT_SECONDS)
            stack.callback(process.kill)
            stack.enter_context(process.stdout)
            started.append(process)
        running = []
        for process in started:
            line = process.stdout.readline()
            match = re.match(r"(http://127\.0\.0\.1:\d+): answers \(no tokens: for this machine only\)", line)
            assert match is not None, line
            running.append(ServeProcess(process, match[1]))
            stack.enter_context(running[-1].client)
        yield running


def check_driver(first: ServeProcess, second: ServeProcess) -> None:
    """Enqueue with one process, wait and reserve with the other, and settle with the first."""
    with connect(str(first.client.base_url)) as one, connect(str(second.client.base_url)) as other:
        assert other.reserve(["driver"], limit=1, lease_for=60_000_000) == []
        timer = threading.Timer(
            0.1, one.enqueue, [[JobRecord(id="d", type="t", queue="driver", payload=b"1", created_at=1)]]
        )
        timer.start()
        while not (reservations := other.reserve(["driver"], limit=1, lease_for=60_000_000)):
            other.wait(["driver"], timeout=TIMEOUT_SECONDS)
        timer.join()
        assert one.settle([Ack(reservations[0].lease)]) == other.settle([Ack(reservations[0].lease)]) == [None]


def test_two_processes_on_one_database_are_one_service(postgres_database):
    url = postgres_database()
    with receiving() as receiver, serve_processes(url, 2, receiver.environment) as (first, second):
        check_driver(first, second)
        claim = in_thread(
            lambda: first.post("/tasks/claim", {"commands": ["a"], "waitSeconds": 50, "leaseSeconds": 60})
        )
        task_id = second.post("/tasks", {"command": "a", "payload": 1}).json()["taskId"]
        assert claim().json()["task"]["id"] == task_id
        body = {"leaseToken": claim().json()["leaseToken"], "progress": 1, "leaseSeconds": 2}
        assert second.post(f"/tasks/{task_id}/heartbeat", body).status_code == 200
        called = first.post("/tasks", {"command": "c", "webhook": f"{receiver.url}/"}).json()["taskId"]
        ending = {
            "leaseToken": first.post("/tasks/claim", {"commands": ["c"]}).json()["leaseToken"],
            "status": "FAILED",
        }
        ended = first.post(f"/tasks/{called}/result", ending)
        first.process.kill()  # between the result and its callback, or while it is sent
        assert ended.json()["status"] == "FAILED"
        # Nobody claims: the loop of the other process ends the lease.
        wait_until(lambda: second.client.get(f"/tasks/{task_id}").json()["status"] == "PENDING")
        refused = second.post(f"/tasks/{task_id}/result", {"leaseToken": body["leaseToken"], "status": "COMPLETED"})
        assert (refused.status_code, refused.json()["code"]) == (409, "not_in_progress")

        assert receiver.await_callback(called).is_signed_with(SECRET)  # the other process sends it

        waiting = in_thread(lambda: second.post("/tasks/claim", {"commands": ["b"], "waitSeconds": 50}))
        wait_until(lambda: second.client.get("/readyz").status_code == 200)
        second.process.send_signal(signal.SIGTERM)
        assert waiting().status_code in (204, 503)
        assert second.process.wait(TIMEOUT_SECONDS) == 0


@pytest.mark.timeout(900)  # longer than that of the load
@pytest.mark.parametrize("driver", [pytest.param("sqlite", marks=pytest.mark.long), "postgres"])
def test_replicas_that_are_killed_lose_no_task_and_no_callback(request, tmp_path, driver):
    """``run soak http`` has larger numbers."""
    url = f"sqlite:///{tmp_path}/jobs.db" if driver == "sqlite" else request.getfixturevalue("postgres_database")()
    assert "lost 0, twice 0, callbacks lost 0" in run_http_kills(url, kills=2, clients=1)


def test_an_upload_of_a_service_that_dies_is_not_there_and_can_be_repeated(tmp_path):
    folder = tmp_path / "artifacts"
    url, variables = f"sqlite:///{tmp_path}/jobs.db", {"HOLDFAST_ARTIFACTS": str(folder)}

    def files() -> list[Path]:
        return [file for file in folder.rglob("*") if file.is_file()]

    with serve_processes(url, 1, variables) as [first]:
        first.post("/tasks", {"command": "a"})
        claim = first.post("/tasks/claim", {"commands": ["a"], "leaseSeconds": 600}).json()
        path, headers = f"/tasks/{claim['task']['id']}/artifacts/a", {"lease-token": claim["leaseToken"]}

        def die() -> Iterator[bytes]:
            yield b"x" * (3 << 20)
            wait_until(lambda: any(file.stat().st_size for file in files()))  # it is being written
            first.process.kill()
            first.process.wait(TIMEOUT_SECONDS)
            yield b"x" * (3 << 20)

        with pytest.raises(httpx.TransportError):
            first.client.put(path, content=die(), headers=headers)
    [left] = files()
    assert left.name.startswith(".upload-")
    with serve_processes(url, 1, variables) as [second]:
        assert second.client.put(path, content=b"whole", headers=headers).status_code == 201
        body = {"leaseToken": claim["leaseToken"], "status": "COMPLETED", "artifacts": ["a"]}
        assert second.post(f"/tasks/{claim['task']['id']}/result", body).status_code == 200
        assert second.client.get(path).content == b"whole"
    later = ManualClock(SystemClock().now() + HOUR)
    with connect(url) as store:
        ArtifactCollector(store, BlobFolder(folder), space="main", clock=later).step()
    assert [file.read_bytes() for file in files()] == [b"whole"]
