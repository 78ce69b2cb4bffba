"""The first program: define a handler, enqueue a job, run it with a worker, read its result."""

from __future__ import annotations

import tempfile

from holdfast import Holdfast, State

with tempfile.TemporaryDirectory() as folder:
    app = Holdfast(f"sqlite:///{folder}/jobs.db")

    @app.handler("greet", max_attempts=3)
    def greet(payload: dict[str, str]) -> str:
        return f"Hello, {payload['name']}!"

    enqueued = greet.enqueue({"name": "Ada"})
    print(f"enqueued: job {enqueued.id}")

    # In production, `holdfast work tasks:app` runs the worker. Handlers run in child processes.
    counts = app.worker(processes=1).run(until_drained=True)
    print(f"worked:   {dict(counts)}")

    job = app.client.get(enqueued.id)
    assert job is not None
    assert job.state is State.DONE
    assert job.result == b'"Hello, Ada!"'
    print(f"result:   {job.result.decode()}")
    app.close()
