"""The smallest round: enqueue a job, reserve it, do it, ack it."""

from __future__ import annotations

import contextlib
import tempfile

from holdfast import Client, JobRequest, State, ack, connect
from holdfast.clock import SECOND
from holdfast.wire.records import to_job

with (
    tempfile.TemporaryDirectory() as folder,
    contextlib.closing(connect(f"sqlite:///{folder}/jobs.db")) as store,
):
    client = Client(store)
    enqueued = client.enqueue(JobRequest(type="greet", payload={"name": "Ada"}))
    print(f"enqueued {enqueued.id}")

    [reservation] = store.reserve(["default"], limit=1, lease_for=30 * SECOND, worker="me")
    job = to_job(reservation)
    print(f"reserved {job.id}, attempt {job.attempt} of {job.max_attempts}: nobody else gets it for 30 s")
    assert store.reserve(["default"], limit=1, lease_for=30 * SECOND) == []

    assert isinstance(job.payload, dict)
    greeting = f"Hello, {job.payload['name']}!"
    print(f"did it:  {greeting}")

    ack(store, reservation.lease, result=greeting.encode())
    done = client.get(job.id)
    assert done is not None
    assert done.state is State.DONE
    assert done.result == b"Hello, Ada!"
    print(f"acked:   the job is {done.state} and keeps its result")
