"""A worker that is to stop when the queues are drained: it can be stopped earlier, and it starts what becomes due."""

import signal
import subprocess
import sys
import textwrap
import threading
import time
from datetime import timedelta

import pytest

from holdfast import JobRequest
from holdfast.model.retry import Fixed
from holdfast.worker import worker

PROGRAM = """
    import sys, time
    from datetime import timedelta
    from holdfast.app import Holdfast

    app = Holdfast(sys.argv[1])
    app.handler("quick")(lambda payload: None)
    app.handler("long")(lambda payload: time.sleep(payload))
    keywords = {"processes": 2, "drain": timedelta(seconds=0.5), "grace": timedelta(seconds=0.5)}
    app.worker(until_drained=True, **keywords).run()
"""


def test_sigterm_stops_a_worker_that_waits_for_a_long_job_behind_quick_ones(app):
    long, *_ = app.client.enqueue(
        [JobRequest(type="long", payload=90), *(JobRequest(type="quick") for _ in range(300))]
    )
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM), app.url])
    try:
        deadline = time.monotonic() + 60
        while sum(count.done for count in app.driver.counts()) < 300:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    record = app.client.get(long.id)
    assert (record.state, record.attempts) == ("ready", 0)


def test_a_retry_that_becomes_due_while_a_long_job_runs_does_not_wait_for_its_end(app, drain):
    @app.handler("long")
    def long(_payload):
        deadline = time.monotonic() + 20
        while sum(count.done for count in app.driver.counts()) < 300:
            assert time.monotonic() < deadline, "the retried job was not started"
            time.sleep(0.02)

    @app.handler("quick", retry=Fixed(timedelta(milliseconds=500)))
    def quick(payload, ctx):
        if payload == 299 and ctx.attempt == 1:
            raise RuntimeError("again, please")

    app.client.enqueue([long.request(), *(quick.request(number) for number in range(300))])
    assert drain(lease=timedelta(seconds=15)) == {"acked": 301, "retried": 1}


@pytest.mark.parametrize("verb", ["settle", "extend"])
def test_a_store_that_does_not_answer_does_not_keep_the_worker_from_stopping(app, monkeypatch, verb):
    app.handler("quick")(lambda _payload: time.sleep(1)).enqueue(1)
    monkeypatch.setattr(worker, "STOP_SECONDS", 0.2)
    answers, original = threading.Event(), getattr(app.driver, verb)
    is_called = threading.Event()

    def hang(*args, **keywords):
        is_called.set()
        answers.wait(60)
        return original(*args, **keywords)

    monkeypatch.setattr(app.driver, verb, hang)
    made = app.worker(processes=1, lease=timedelta(milliseconds=600), drain=timedelta(0))
    thread = threading.Thread(target=made.run)
    thread.start()
    assert is_called.wait(30)
    made.stop()
    thread.join(30)
    has_ended = not thread.is_alive()
    answers.set()
    thread.join(30)
    assert has_ended
