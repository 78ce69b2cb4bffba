"""What a dying worker, and an outage of the store, cost the jobs that the worker held (L7)."""

import sqlite3
import threading
import time
from datetime import timedelta

import pytest

from holdfast import JobRequest
from holdfast.driver import SECOND, State
from holdfast.model.settlement import Retry
from holdfast.worker.reserve_loop import POLL_SECONDS
from tests.soak.worker_killer import run_worker_killer


@pytest.mark.parametrize("seed", [1, 2], ids=["memory", "signal"])
def test_only_the_job_that_kills_its_worker_dies(tmp_path, seed):
    run_worker_killer(tmp_path, f"sqlite:///{tmp_path}/jobs.db", seed=seed, short=300, long=60)


def test_only_the_job_that_kills_its_worker_dies_on_postgres(tmp_path, postgres_database):
    run_worker_killer(tmp_path, postgres_database(), seed=3, short=300, long=60)


# Isolated jobs --------------------------------------------------------------------------------------------------


def enqueue_crashed(app, handler, count=1):
    """Enqueue jobs of the type "crashed", and let their first attempts be crashes; return their ids."""
    ids = [handler.enqueue("crashed").id for _ in range(count)]
    reserved = app.driver.reserve(["default"], limit=count, lease_for=60 * SECOND, types=["crashed"])
    assert app.driver.settle([Retry(one.lease, crashed=True) for one in reserved]) == [None] * count
    return ids


def test_a_job_that_crashed_shares_the_worker_with_no_other(app, drain, tmp_path):
    spans = tmp_path / "spans"

    def span(payload):
        began = time.monotonic()
        time.sleep(0.02)
        with spans.open("a") as file:
            file.write(f"{payload} {began} {time.monotonic()}\n")

    many = app.handler("many")(span)
    crashed = app.handler("crashed")(span)
    many.enqueue_many(["many"] * 15)
    enqueue_crashed(app, crashed, 10)
    many.enqueue_many(["many"] * 15)
    assert drain(processes=2) == {"acked": 40}
    lines = [line.split() for line in spans.read_text().splitlines()]
    runs = sorted((float(began), float(ended), kind) for kind, began, ended in lines)
    for began, ended, kind in runs:
        beside = [run for run in runs if run != (began, ended, kind) and run[0] < ended and began < run[1]]
        assert kind != "crashed" or beside == []


def test_isolated_jobs_do_not_wait_for_a_poll_of_the_store(app, drain):
    crashed = app.handler("crashed")(lambda payload: payload)
    enqueue_crashed(app, crashed, 100)
    assert drain(processes=2) == {"acked": 100}
    rows = [row for row in app.driver.ledger(limit=200) if row.attempt == 2]
    ended_at, reserved_at = sorted(row.ended_at for row in rows), sorted(row.reserved_at for row in rows)
    waits = sorted(reserved - ended for ended, reserved in zip(ended_at, reserved_at[2:], strict=False))
    assert waits[len(waits) // 4] < POLL_SECONDS * SECOND / 2  # after all of them, if each waited for a poll


def test_a_long_job_does_not_keep_the_other_children_idle_while_an_isolated_job_waits(app, tmp_path):
    """The worker waits a second to be alone, then it goes on without the isolated job."""
    release = tmp_path / "release"

    @app.handler("long")
    def long(_payload):
        deadline = time.monotonic() + 60
        while not release.exists() and time.monotonic() < deadline:
            time.sleep(0.02)

    crashed = app.handler("crashed")(lambda _payload: None)
    short = app.handler("short")(lambda _payload: None)
    worker = app.worker(queues=("default",), processes=2, until_drained=True)
    [isolated] = enqueue_crashed(app, crashed)
    first = long.enqueue(None, priority=9)
    thread = threading.Thread(target=worker.run)
    worker.prepare()
    thread.start()
    _wait_for(lambda: app.client.get(first.id).state is State.INFLIGHT)
    others = [short.enqueue(None) for _ in range(20)]
    _wait_for(lambda: all(app.client.get(other.id).state is State.DONE for other in others))
    assert app.client.get(isolated).state is State.READY
    release.touch()
    thread.join(60)
    assert app.client.get(isolated).state is State.DONE


# Outages --------------------------------------------------------------------------------------------------------


def test_three_outages_longer_than_a_lease_are_no_crash_of_a_long_job(app, tmp_path):
    """Another process holds the write lock of the database, so that no lease can be extended."""

    @app.handler("long")
    def long(_payload, ctx):
        if ctx.attempt < 4:
            time.sleep(60)

    answer = app.client.enqueue(JobRequest(type="long", payload=None))
    worker = app.worker(queues=("default",), processes=1, lease=timedelta(seconds=2), until_drained=True)
    worker.prepare()
    thread = threading.Thread(target=worker.run)
    thread.start()
    for attempt in (1, 2, 3):
        _wait_for(lambda attempt=attempt: _is_running(app, answer.id, attempt))
        lock = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
        time.sleep(3.5)
        lock.execute("ROLLBACK")
        lock.close()
    thread.join(60)
    job = app.client.get(answer.id)
    assert (job.state, job.attempts, job.crashes) == (State.DONE, 4, 0)


def _is_running(app, job_id, attempt):
    job = app.client.get(job_id)
    return job.state is State.INFLIGHT and job.attempts == attempt


def _wait_for(condition, timeout=60):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
