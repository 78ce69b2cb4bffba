"""Many jobs with large payloads: the memory of the worker is bounded, and no lease is lost."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import uuid_utils

import holdfast
from holdfast.driver import Ending, JobRecord, SystemClock
from tests.processes import descendants, resident_bytes
from tests.soak.ledger_checks import read_ledger
from tests.soak.worker_group import worker_group
from tests.soak.worker_program import IGNORE, QUEUE

PAYLOAD_BYTES = 1 << 20  # the default limit of a payload
ENQUEUE_JOBS = 50  # in one call


def run_large_payloads(folder: Path, url: str, *, jobs: int, most_bytes: int) -> str:
    """Drain the jobs with one worker of default size, and check the memory of all its processes together."""
    store = holdfast.connect(url)
    payload = json.dumps("x" * (PAYLOAD_BYTES - 2)).encode()
    for start in range(0, jobs, ENQUEUE_JOBS):
        store.enqueue([_job(payload) for _ in range(min(ENQUEUE_JOBS, jobs - start))])
    peak, deadline = 0, time.monotonic() + 60 + jobs / 5
    with worker_group(url, folder) as start_worker:
        worker = start_worker(processes=2, lease=15, until_drained=True)
        while (code := worker.process.poll()) is None:
            assert time.monotonic() < deadline, worker.errors()
            peak = max(peak, sum(map(resident_bytes, [worker.pid, *descendants(worker.pid)])))
            time.sleep(0.02)
        assert code == 0, worker.errors()
    endings = Counter(row.ending for row in read_ledger(store))
    store.close()
    assert endings == {Ending.ACKED: jobs}, endings
    assert peak < most_bytes, f"the worker took {peak >> 20} MiB"
    return f"{jobs:,} jobs of 1 MiB: all done at the first attempt, no lease lost, at most {peak >> 20} MiB of memory"


def _job(payload: bytes) -> JobRecord:
    return JobRecord(
        id=str(uuid_utils.uuid7()), type=IGNORE, queue=QUEUE, payload=payload, created_at=SystemClock().now()
    )
