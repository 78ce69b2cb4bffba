"""``capture_output``: what a handler prints is kept with the job, apart from its result."""

import asyncio
import sys
import time
from datetime import timedelta

import pytest

from holdfast.errors import InvalidInput
from holdfast.model.execution import MAX_OUTPUT_BYTES
from tests.worker.conftest import QUICK


def test_the_output_of_the_last_attempt_is_kept(app, capsys):
    @app.handler("t", capture_output=True, retry=QUICK)
    def work(payload, ctx):
        print("attempt", ctx.attempt)
        print("warning", file=sys.stderr)
        if ctx.attempt == 1:
            raise ValueError("first")
        return payload

    job = work.enqueue(7)
    worker = app.worker()
    assert app.client.execution(job.id) is None
    assert worker.process_once().status == "retried"
    failed = app.client.execution(app.client.get(job.id))
    assert (failed.success, failed.output, failed.attempt, failed.handler) == (False, "attempt 1\nwarning\n", 1, "t")
    assert "ValueError: first" in failed.error
    assert failed.ended - failed.started == failed.duration >= timedelta(0)
    while worker.process_once().status == "empty":  # its delay
        time.sleep(0.01)
    done = app.client.execution(job.id)
    assert (done.success, done.output, done.error, done.truncated) == (True, "attempt 2\nwarning\n", "", False)
    assert app.client.result(job.id) == 7
    assert capsys.readouterr().out == "attempt 1\nattempt 2\n"  # still printed
    assert asyncio.run(app.async_client.execution(job.id)) == done


def test_the_end_of_a_long_output_is_kept(app):
    @app.handler("t", capture_output=True)
    def work(_payload):
        for number in range(20_000):
            print(f"{number} é")
        sys.stdout.write("\x00" * MAX_OUTPUT_BYTES * 2)
        print("end")

    job = work.enqueue(None)
    assert app.worker().process_once().status == "acked"
    kept = app.client.execution(job.id)
    assert kept.truncated
    assert kept.output.endswith("\x00end\n")
    assert len(kept.output.encode()) == MAX_OUTPUT_BYTES


@pytest.mark.parametrize("concurrency", [1, 3])
def test_attempts_in_child_processes_are_kept_apart(app, drain, concurrency):
    @app.handler("t", capture_output=True)
    def work(payload):
        for _ in range(20):
            print(payload)
            time.sleep(0.001)

    @app.handler("async", capture_output=True)
    async def wait(payload):
        for _ in range(20):
            print(payload)
            await asyncio.sleep(0.001)

    @app.handler("hang", capture_output=True, timeout=timedelta(milliseconds=200), max_attempts=1)
    def hang(_payload):
        print("before")
        while True:
            time.sleep(0.01)

    @app.handler("plain")
    def plain(_payload):
        print("not kept")

    jobs = {number: task.enqueue(number) for number, task in enumerate([work, wait, work, wait])}
    hung, other = hang.enqueue(None), plain.enqueue(None)
    tally = drain(processes=1, concurrency=concurrency, lease=timedelta(seconds=30))
    assert (tally["acked"], tally["dead"]) == (5, 1)
    for number, job in jobs.items():
        assert app.client.execution(job.id).output == f"{number}\n" * 20
    stopped = app.client.execution(hung.id)
    assert (stopped.success, stopped.output, "timed out" in stopped.error) == (False, "before\n", True)
    assert app.client.execution(other.id) is None


def test_a_chunk_has_no_output_of_its_own(app):
    with pytest.raises(InvalidInput, match="capture_output"):
        app.handler("t", chunk=2, capture_output=True)(list)
