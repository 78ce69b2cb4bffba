"""The workers of docs/reference/http.md: claim, heartbeat, result, nack, abandon, and a stop by SIGTERM."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess

import pytest

from tests.service.http_service import TIMEOUT_SECONDS, running_service, sqlite_url
from tests.service.test_http_page import PAGE
from tests.waiting import wait_until

LEASE_SECONDS = 3


@pytest.mark.parametrize(
    ("language", "file", "needed", "error"),
    [("js", "worker.mjs", ["node"], "TypeError"), ("bash", "worker.sh", ["bash", "curl", "jq"], "exit code 5")],
    ids=["javascript", "bash"],
)
def test_a_worker_of_the_page_serves_tasks(tmp_path, language, file, needed, error):
    for program in needed:
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    [text] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / file).write_text(text, encoding="utf-8")
    with running_service(sqlite_url(tmp_path)) as service:
        environment = {
            **os.environ,
            "HOLDFAST": service.url,
            "LEASE_SECONDS": str(LEASE_SECONDS),
            "TMPDIR": str(tmp_path),
        }
        command = [needed[0], str(tmp_path / file)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
            try:
                _check_tasks(service, error)
                worker.send_signal(signal.SIGTERM)  # while a claim waits
                output, _ = worker.communicate(timeout=TIMEOUT_SECONDS)
            finally:
                worker.kill()
        assert worker.returncode == 0
        assert {line.split()[1] for line in output.splitlines()} == {"COMPLETED", "FAILED", "DELAYED", "CANCELLED"}


def _check_tasks(service, error):
    counted = service.enqueue("text.count", payload={"text": "one two  three"})
    result = service.get(f"/v1/tasks/{counted}/result", wait=TIMEOUT_SECONDS).json()
    assert (result["status"], result["result"]) == ("COMPLETED", {"words": 3})

    failing = service.enqueue("text.count", payload={}, maxAttempts=1)
    result = service.get(f"/v1/tasks/{failing}/result", wait=TIMEOUT_SECONDS).json()
    assert result["status"] == "FAILED"
    assert error in result["error"]

    retried = service.enqueue("text.count", payload=None)
    assert error in wait_until(lambda: service.get(f"/v1/tasks/{retried}").json().get("error"))
    service.client.post(f"/v1/tasks/{retried}/cancel").raise_for_status()

    long = service.enqueue("sleep", payload={"seconds": 600})
    first = wait_until(lambda: service.get(f"/v1/tasks/{long}").json().get("leaseUntil"))
    wait_until(lambda: service.get(f"/v1/tasks/{long}").json()["leaseUntil"] not in (None, first))
    service.client.post(f"/v1/tasks/{long}/cancel").raise_for_status()
    wait_until(lambda: service.get(f"/v1/tasks/{long}").json()["status"] == "CANCELLED")
