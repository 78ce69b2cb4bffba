"""What a batch makes the service read: its memory is bounded by the request, not by the tasks that it names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from holdfast import connect
from holdfast.driver import JobRecord

ITEMS = 1000
TASK_BYTES = 1 << 20
MOST_GROWTH_BYTES = 100 << 20  # a tenth of what the tasks that are named have together


def memory_of(pid: int) -> int:
    """Return the peak of the resident memory of a process, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_a_batch_that_names_a_large_task_many_times_reads_it_without_its_payload(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with connect(url) as store:
        store.enqueue(
            [JobRecord(id="large", type="t", queue="default", payload=b'"%b"' % (b"x" * TASK_BYTES), created_at=1)]
        )
    command = [sys.executable, "-m", "holdfast", "serve", "--url", url, "--bind", "127.0.0.1:0", "--log-level", "error"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = re.search(r"http://[\d.]+:\d+", process.stdout.readline())
            assert address is not None
            with httpx.Client(base_url=address[0], timeout=60, trust_env=False) as client:
                claim = client.post("/v1/tasks/claim", json={"leaseSeconds": 600}).json()
                assert claim["task"]["id"] == "large"
                before = memory_of(process.pid)
                for fields in ({"status": "COMPLETED"}, {"status": "FAILED"}, {"status": "FAILED", "retryable": True}):
                    item = {"taskId": "large", "leaseToken": "1.0", **fields}
                    answer = client.post("/v1/tasks/result/batch", json={"results": [item] * ITEMS})
                    assert [one["problem"]["code"] for one in answer.json()["results"]] == ["lease_mismatch"] * ITEMS
                assert memory_of(process.pid) - before <= MOST_GROWTH_BYTES
        finally:
            process.terminate()
            process.wait(60)
