"""Several jobs at a time in one child process."""

import asyncio
import os
import threading
import time
from datetime import timedelta

import pytest

from holdfast.errors import InvalidInput
from holdfast.model.job import State
from holdfast.worker.options import WorkerOptions
from tests.worker.conftest import ended
from tests.worker.hostile_handlers import HOSTILE_HANDLERS, ignores_signals  # threads cannot change signal handlers

MAX_WAIT_SECONDS = 30.0  # after which a test has failed
FOUR_THREADS = {"processes": 1, "concurrency": 4, "lease": timedelta(seconds=10)}


def test_one_process_runs_several_jobs_at_a_time(app, drain):
    together = threading.Barrier(4)

    @app.handler("meet")
    def meet(_payload):
        together.wait(MAX_WAIT_SECONDS)
        return os.getpid()

    answers = [meet.enqueue(number) for number in range(8)]
    assert drain(**FOUR_THREADS) == {"acked": 8}
    assert len({app.client.result(answer.id) for answer in answers}) == 1


def test_async_handlers_of_all_threads_share_an_event_loop(app, drain):
    meeting: list[asyncio.Barrier] = []

    @app.handler("meet")
    async def meet(_payload):
        if not meeting:
            meeting.append(asyncio.Barrier(4))
        await asyncio.wait_for(meeting[0].wait(), MAX_WAIT_SECONDS)
        return id(asyncio.get_running_loop())

    answers = [meet.enqueue(number) for number in range(4)]
    assert drain(**FOUR_THREADS) == {"acked": 4}
    assert len({app.client.result(answer.id) for answer in answers}) == 1


@pytest.mark.parametrize("concurrency", [1, 4])
def test_async_handlers_run_on_the_event_loop_of_earlier_attempts(app, drain, concurrency):
    @app.handler("look")
    async def look(_payload):
        return id(asyncio.get_running_loop())

    answers = [look.enqueue(number) for number in range(6)]
    drain(processes=1, concurrency=concurrency)
    assert len({app.client.result(answer.id) for answer in answers}) == 1


@pytest.mark.parametrize(
    "handler", [one for one in HOSTILE_HANDLERS if one is not ignores_signals], ids=lambda one: one.__name__
)
def test_a_handler_that_does_not_stop_is_stopped_and_costs_no_other_job_an_attempt(app, drain, handler, tmp_path):
    """A job in the same process runs to its end, or is released and runs again as its first attempt."""
    stubborn = app.handler("stubborn", timeout=timedelta(milliseconds=100), max_attempts=1)(handler)

    @app.handler("patient")
    def patient(_payload, ctx):
        began = tmp_path / str(ctx.job.payload)
        again = began.exists()
        began.touch()
        if not again:
            time.sleep(1)
        return ctx.attempt

    waiting = [patient.enqueue(number) for number in range(2)]
    bad = stubborn.enqueue(None)
    assert drain(**FOUR_THREADS)["dead"] == 1
    assert ended(app, bad).last_error == "timed out after 100ms"
    assert [app.client.result(answer.id) for answer in waiting] == [1, 1]


def test_python_code_in_a_thread_is_interrupted_and_its_process_is_not_killed(app, drain):
    @app.handler("loop", timeout=timedelta(milliseconds=50), max_attempts=1)
    def loop(_payload):
        while True:
            pass

    @app.handler("await", timeout=timedelta(milliseconds=50), max_attempts=1)
    async def wait(_payload):
        await asyncio.sleep(MAX_WAIT_SECONDS)

    @app.handler("patient")
    def patient(_payload):
        time.sleep(0.5)
        return os.getpid()

    answers = [patient.enqueue(number) for number in range(2)]
    bad = [task.enqueue(None) for task in (loop, wait) for _ in range(2)]
    assert drain(**FOUR_THREADS, grace=timedelta(seconds=30)) == {"acked": 2, "dead": 4}
    assert {ended(app, one).last_error for one in bad} == {"timed out after 50ms"}
    assert len({app.client.result(answer.id) for answer in answers}) == 1


def test_an_interruption_that_comes_too_late_hits_no_other_job(app, drain):
    """Many jobs end close to their timeout, in threads that then run other jobs."""

    @app.handler("close", timeout=timedelta(milliseconds=20), max_attempts=1)
    def close(payload):
        until = time.monotonic() + 0.018 + payload * 0.0002
        while time.monotonic() < until:
            pass

    @app.handler("steady")
    def steady(_payload):
        return sum(range(5000))

    for number in range(20):
        close.enqueue(number)
    answers = [steady.enqueue(number) for number in range(200)]
    tally = drain(**{**FOUR_THREADS, "concurrency": 2})
    assert tally["acked"] + tally["dead"] == 220
    assert {ended(app, answer).state for answer in answers} == {State.DONE}


@pytest.mark.parametrize("concurrency", [1, 4])
def test_an_async_handler_that_cancels_itself_has_failed_and_was_not_interrupted(app, drain, concurrency):
    @app.handler("cancel", max_attempts=1)
    async def cancel(_payload):
        raise asyncio.CancelledError

    cancel.enqueue(None)
    assert drain(processes=1, concurrency=concurrency, max_jobs=1) == {"dead": 1}


def test_after_a_crash_each_job_of_the_process_runs_alone(app, drain):
    together = threading.Barrier(3)

    @app.handler("bad", max_attempts=9)
    def bad(_payload, ctx):
        if ctx.attempt == 1:
            together.wait(MAX_WAIT_SECONDS)
        os._exit(3)

    @app.handler("good")
    def good(_payload, ctx):
        if ctx.attempt == 1:
            together.wait(MAX_WAIT_SECONDS)
            time.sleep(MAX_WAIT_SECONDS)
        return ctx.attempt

    answers = [good.enqueue(number) for number in range(2)]
    poison = bad.enqueue(None)
    drain(**FOUR_THREADS)
    assert ended(app, poison).state is State.DEAD
    assert ended(app, poison).crashes == 3
    assert [app.client.result(answer.id) for answer in answers] == [2, 2]


def test_a_worker_that_stops_lets_the_jobs_of_all_threads_end(app):
    @app.handler("stop")
    def stop(_payload):
        time.sleep(0.1)

    worker = app.worker(processes=1, concurrency=4, max_jobs=6)
    for number in range(20):
        stop.enqueue(number)
    assert worker.run() == {"acked": 6}
    assert sum(count.ready for count in app.driver.counts()) == 14


def test_threads_share_a_resource_that_is_made_once(app, drain, tmp_path):
    together = threading.Barrier(4)

    @app.resource
    def slow():
        (tmp_path / f"{time.monotonic_ns()}").touch()
        time.sleep(0.1)
        return object()

    @app.handler("use")
    def use(_payload, ctx):
        together.wait(MAX_WAIT_SECONDS)
        return id(ctx.resources["slow"])

    answers = [use.enqueue(number) for number in range(4)]
    drain(**FOUR_THREADS)
    assert len({app.client.result(answer.id) for answer in answers}) == len(list(tmp_path.glob("[0-9]*"))) == 1


@pytest.mark.linux_only
def test_a_job_with_a_limit_of_processor_time_runs_alone_in_its_process(app, drain):
    @app.handler("bounded", cpu=timedelta(milliseconds=400), max_attempts=1)
    def bounded(_payload):
        time.sleep(0.2)

    @app.handler("busy")
    def busy(_payload):
        until = time.process_time() + 0.5
        while time.process_time() < until:
            pass

    tasks = [bounded, busy, busy, bounded, busy, busy, bounded]
    for task in tasks:
        task.enqueue(None)
    tally = drain(**FOUR_THREADS)  # jobs that waited too long for an idle process may be released
    assert (tally["acked"], tally["dead"]) == (len(tasks), 0)


def test_a_child_with_several_threads_is_replaced_too(app, drain):
    @app.handler("who")
    def who(_payload):
        return os.getpid()

    answers = [who.enqueue(number) for number in range(12)]
    assert drain(**FOUR_THREADS, recycle_after=2) == {"acked": 12}
    assert len({app.client.result(answer.id) for answer in answers}) >= 2


def test_a_concurrency_of_zero_is_refused():
    with pytest.raises(InvalidInput, match="concurrency"):
        WorkerOptions(concurrency=0)
