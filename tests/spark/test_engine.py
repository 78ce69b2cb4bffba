"""The jobs of a queue on local Spark, with crashes, kills, cancels and timeouts."""

import dataclasses
import os
import signal
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

import holdfast
from holdfast.app import Holdfast
from holdfast.drivers.requests import Cancel
from holdfast.errors import InvalidInput, Unsupported
from holdfast.model.job import State
from holdfast.observability import InMemoryMetrics, metric_table
from holdfast.observability.ledger_metrics import LedgerMetrics
from holdfast.spark import run_queue
from holdfast.spark.execution.outcomes import from_ledger
from holdfast.worker.control import Unrecoverable
from tests.spark.conftest import OPTIONS


def ending_of(row):
    """The word of the worker for a ledger row."""
    return "dead" if row.state is State.DEAD else row.ending


def ledger(app):
    rows, cursor = [], None
    while page := app.driver.ledger(cursor):
        rows += page.items
        cursor = page.cursor
    return rows


def test_a_queue_is_drained_with_one_row_for_each_attempt(spark, any_app):
    app = any_app

    @app.handler("t")
    def handle(payload, ctx):
        if payload % 10 == 0 and ctx.attempt == 1:
            raise ValueError("at first")
        if payload % 50 == 7:
            raise Unrecoverable("never")
        if payload == 13 and ctx.attempt == 1:
            os._exit(3)
        return payload

    app.client.enqueue([handle.request(number) for number in range(200)])
    seen = []
    metrics = InMemoryMetrics()
    exporter = LedgerMetrics(app.driver, metrics)
    exporter.update()
    rows = run_queue(app, spark=spark, slots=2, options=OPTIONS, on_progress=seen.append).collect()
    assert [(count.done, count.dead) for count in app.driver.counts()] == [(196, 4)]
    ends = [(row["job_id"], row["attempt"], row["fence"], row["ending"]) for row in rows]
    assert sorted(ends) == sorted((row.job_id, row.attempt, row.fence, ending_of(row)) for row in ledger(app))
    assert {row["error_class"] for row in rows} == {None, "ValueError", "never", "crashed"}
    assert {row["slot"] for row in rows} <= {0, 1}
    assert all(row["reserved_at"] <= row["started_at"] <= row["ended_at"] for row in rows)
    assert seen[-1].settled["acked"] == 196
    assert (seen[-1].ready, seen[-1].inflight, seen[-1].done, seen[-1].dead) == (0, 0, 196, 4)
    assert all(progress.total == 200 for progress in seen)
    exporter.update()
    assert metrics.value(metric_table.LEDGER_ENDINGS.name, type="t") == len(rows), "metrics of slots, from the ledger"
    assert metrics.value(metric_table.LEDGER_DEAD.name) == 4


def test_a_run_shows_its_own_jobs_and_not_those_of_an_earlier_run(spark, app, capsys):
    handle = app.handler("t")(lambda payload: payload)
    for count in (30, 20):
        app.client.enqueue([handle.request(number) for number in range(count)])
        run_queue(app, spark=spark, slots=1, options=OPTIONS, progress=True)
        *_, last = capsys.readouterr().err.splitlines()
        assert last.startswith("100 %")
        assert last.endswith(f"ready 0  in flight 0  done {count}  dead 0")


def test_a_python_worker_is_reused_by_later_slots(spark, app):
    handle = app.handler("t")(lambda payload: payload)
    executors = set()
    for number in range(4):
        app.client.enqueue(handle.request(number))
        [row] = run_queue(app, spark=spark, slots=1, options=OPTIONS).collect()
        executors.add(row["executor"])
    assert len(executors) <= 2  # as many as the session has cores


def test_reading_the_outcomes_twice_runs_no_job_again(spark, app):
    handle = app.handler("t")(lambda payload: payload)
    app.client.enqueue([handle.request(number) for number in range(20)])
    rows = run_queue(app, spark=spark, slots=1, options=OPTIONS)
    app.client.enqueue([handle.request(number) for number in range(5)])
    assert rows.count() == rows.count() == 20
    assert [count.ready for count in app.driver.counts()] == [5]


def test_a_killed_python_worker_loses_no_job_and_no_outcome(spark, any_app):
    app = any_app

    @app.handler("deadly", max_attempts=5)
    def deadly(payload, ctx):
        if payload == 30 and ctx.attempt == 1:
            # This process is a child of the forkserver, which is a child of the Spark task's Python process.
            forkserver = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(forkserver.rpartition(")")[2].split()[1]), signal.SIGKILL)
            time.sleep(60)
        return os.getpid()

    app.client.enqueue([deadly.request(number) for number in range(100)])
    rows = run_queue(app, spark=spark, slots=2, options=OPTIONS).collect()
    assert [(count.done, count.dead) for count in app.driver.counts()] == [(100, 0)]
    outcomes = sorted((row["job_id"], row["attempt"], row["fence"], row["ending"]) for row in rows)
    assert outcomes == sorted((row.job_id, row.attempt, row.fence, ending_of(row)) for row in ledger(app))
    acked = [row["job_id"] for row in rows if row["ending"] == "acked"]
    assert len(acked) == len(set(acked)) == 100


def test_leases_are_extended_while_a_handler_holds_the_gil(spark, app):
    @app.handler("long")
    def long(_payload, ctx):
        import ctypes

        ctypes.PyDLL(None).sleep(7)  # more than two leases
        return ctx.attempt

    answer = long.enqueue(None)
    run_queue(app, spark=spark, slots=1, options=OPTIONS)
    assert app.client.result(answer.id) == 1


def test_an_attempt_that_makes_its_job_dead_has_one_word_in_worker_frame_and_progress(spark, app):
    @app.handler("t", max_attempts=1)
    def fail(payload):
        if payload == 0:
            raise Unrecoverable("never")
        raise ValueError(payload)

    app.client.enqueue([fail.request(number) for number in range(5)])
    seen = []
    outcomes = run_queue(app, spark=spark, slots=1, options=OPTIONS, on_progress=seen.append)
    assert {(row["ending"], row["state"]) for row in outcomes.collect()} == {("dead", "dead")}
    assert (seen[-1].settled, seen[-1].dead) == ({"dead": 5}, 5)
    from_rows = from_ledger([replace(row, worker="run/0/0/0") for row in ledger(app)])
    assert set(from_rows.column("ending").to_pylist()) == {"dead"}


def test_a_timeout_stops_a_handler_and_not_the_spark_task(spark, app):
    @app.handler("stuck", timeout=timedelta(milliseconds=100), max_attempts=1)
    def stuck(_payload):
        while True:
            pass

    answer = stuck.enqueue(None)
    [row] = run_queue(app, spark=spark, slots=1, options=OPTIONS).collect()
    assert (row["ending"], row["state"], row["error_class"]) == ("dead", "dead", "timed out")
    assert app.client.get(answer.id).state is State.DEAD


def test_an_interrupted_run_releases_its_jobs(spark, app):
    @app.handler("slow")
    def slow(_payload):
        time.sleep(60)

    answers = [slow.enqueue(number) for number in range(2)]

    def interrupt(progress):
        if progress.inflight == progress.busy == 2:
            raise KeyboardInterrupt

    options = dataclasses.replace(OPTIONS, drain=timedelta(milliseconds=100))
    with pytest.raises(KeyboardInterrupt):
        run_queue(app, spark=spark, slots=2, options=options, on_progress=interrupt)
    records = [app.client.get(answer.id) for answer in answers]
    assert [(record.state, record.attempts) for record in records] == [(State.READY, 0)] * 2


def test_a_cancelled_job_is_counted_apart_from_dead_ones(spark, app):
    @app.handler("slow")
    def slow(_payload):
        time.sleep(60)

    answer = slow.enqueue(1)
    seen = []

    def cancel(progress):
        seen.append(progress)
        if progress.busy:
            app.driver.do(Cancel(job_ids=[answer.id]))

    [row] = run_queue(app, spark=spark, slots=1, options=OPTIONS, on_progress=cancel).collect()
    assert app.client.get(answer.id).state is State.CANCELLED
    assert row["ending"] == ledger(app)[-1].ending == "cancelled"
    assert (seen[-1].dead, seen[-1].cancelled, seen[-1].settled["cancelled"]) == (0, 1, 1)


def test_a_cancelled_spark_job_loses_no_job(spark, app):
    @app.handler("slow")
    def slow(payload):
        time.sleep(0.05)
        return payload

    app.client.enqueue([slow.request(number) for number in range(60)])

    def cancel(progress):
        if progress.settled["acked"] > 5:
            spark.sparkContext.cancelAllJobs()

    with pytest.raises(Exception, match="cancelled"):
        run_queue(app, spark=spark, slots=2, options=OPTIONS, on_progress=cancel)
    run_queue(app, spark=spark, slots=2, options=OPTIONS)
    acked = [row.job_id for row in ledger(app) if row.ending == "acked"]
    assert len(acked) == len(set(acked)) == 60


def test_a_run_with_stop_after_ends_in_time(spark, app):
    stop = threading.Event()
    handle = app.handler("t")(lambda payload: payload)

    def feed():
        while not stop.wait(0.02):
            handle.enqueue(1)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        rows = run_queue(app, spark=spark, slots=1, options=OPTIONS, stop_after=timedelta(seconds=2))
    finally:
        stop.set()
        feeder.join()
    assert rows.count() > 0


def test_a_store_that_slots_cannot_open_is_refused(spark):
    app = Holdfast("memory://")
    app.handler("t")(lambda payload: payload)
    with pytest.raises(Unsupported, match="one process"):
        run_queue(app, spark=spark)
    app.close()
    with holdfast.connect("memory://") as store:
        app = Holdfast(driver=store)
        app.handler("t")(lambda payload: payload)
        with pytest.raises(InvalidInput, match="store URL"):
            run_queue(app, spark=spark)
