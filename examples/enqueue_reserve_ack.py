"""The life of a job without a worker: enqueue, reserve under a lease, do the work, ack."""

from __future__ import annotations

import json
import tempfile

from holdfast import Client, JobRequest, State, connect
from holdfast.driver import SECOND, ack

with tempfile.TemporaryDirectory() as folder, connect(f"sqlite:///{folder}/jobs.db") as store:
    client = Client(store)
    enqueued = client.enqueue(JobRequest(type="greet", payload={"name": "Ada"}))
    print(f"enqueued: {enqueued.id}")

    [reservation] = store.reserve(["default"], limit=1, lease_for=30 * SECOND, worker="example")
    job = reservation.job
    print(f"reserved: attempt {job.attempts} of {job.max_attempts}; no other worker gets this job for 30 s")
    assert store.reserve(["default"], limit=1, lease_for=30 * SECOND) == []

    greeting = f"Hello, {json.loads(job.payload)['name']}!"
    print(f"worked:   {greeting}")

    ack(store, reservation.lease, result=json.dumps(greeting).encode())
    finished = client.get(job.id)
    assert finished is not None
    assert finished.state is State.DONE
    assert finished.result == b'"Hello, Ada!"'
    print(f"acked:    the job is {finished.state}, and its result is stored")
