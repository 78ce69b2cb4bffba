"""A DataFrame through a handler."""

import gc
import os
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import InvalidInput, TooManyDead
from holdfast.spark import run, run_queue
from holdfast.spark.execution.dataframe import _limit_dead
from holdfast.spark.execution.progress import Progress
from holdfast.worker.control import Unrecoverable
from tests.spark.conftest import OPTIONS


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


def test_every_row_has_exactly_one_outcome(spark, url):
    def halve(row, ctx):
        if row["n"] % 10 == 3:
            raise Unrecoverable("odd luck")
        if row["n"] % 10 == 5 and ctx.attempt == 1:
            raise ValueError("at first")
        if row["n"] == 17 and ctx.attempt == 1:
            os._exit(1)
        return {"half": row["n"] / 2, "word": row["word"]}

    df = spark.range(60).selectExpr("id AS n", "concat('w', id) AS word", "CAST(NULL AS string) AS nothing")
    ok, dead = run(df, halve, key="n", url=url, slots=2, options=OPTIONS)
    assert ok.columns == dead.columns == ["n", "word", "nothing", "holdfast"]
    good = {row["n"]: row["holdfast"] for row in ok.collect()}
    bad = {row["n"]: row["holdfast"] for row in dead.collect()}
    assert sorted([*good, *bad]) == list(range(60))
    assert sorted(bad) == [3, 13, 23, 33, 43, 53]
    assert good[8]["result"] == '{"half":4.0,"word":"w8"}'
    assert (good[5]["attempts"], good[17]["attempts"], good[8]["attempts"]) == (2, 2, 1)
    assert (bad[13]["reason"], bad[13]["attempts"], bad[13]["state"]) == ("odd luck", 1, "dead")


@pytest.fixture
def small_broadcasts(spark):
    """Spark broadcasts only very small frames for a join."""
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "10KB")
    yield
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)


@pytest.mark.usefixtures("small_broadcasts")
def test_spark_knows_how_large_the_outcomes_of_a_run_are(spark, url):
    ok, _ = run(spark.range(1000).toDF("n"), lambda row: [row] * 5, key="n", url=url, slots=1, options=OPTIONS)
    assert "BroadcastHashJoin" not in ok._jdf.queryExecution().executedPlan().toString()
    assert ok.count() == 1000


@pytest.mark.usefixtures("small_broadcasts")
def test_spark_knows_how_large_the_outcomes_of_a_queue_are(spark, app):
    handle = app.handler("t")(lambda payload: payload)
    app.client.enqueue([handle.request(number) for number in range(1000)])
    outcomes = run_queue(app, spark=spark, slots=1, options=OPTIONS)
    both = outcomes.join(outcomes.select("job_id"), "job_id")
    assert "BroadcastHashJoin" not in both._jdf.queryExecution().executedPlan().toString()
    assert both.count() == 1000


def test_a_run_with_the_name_of_an_earlier_run_continues_it(spark, url, tmp_path):
    def note(row):
        with Path(tmp_path, "ran").open("a") as file:
            file.write(f"{row['n']}\n")
        return row["n"]

    first, second = spark.range(10).toDF("n"), spark.range(15).toDF("n")
    run(first, note, key="n", url=url, run="nightly", slots=1, options=OPTIONS)
    ok, dead = run(second, note, key="n", url=url, run="nightly", slots=1, options=OPTIONS)
    assert (ok.count(), dead.count()) == (15, 0)
    assert sorted(Path(tmp_path, "ran").read_text().split(), key=int) == [str(n) for n in range(15)]


def test_short_rows_are_stored_and_leased_in_one_call(spark, url):
    rows = 20_000
    ok, _ = run(spark.range(rows).toDF("n"), lambda row: row["n"], key="n", url=url, slots=2)
    assert ok.count() == rows
    with holdfast.connect(url) as store:
        ended = store.ledger(limit=10_000).items
    assert {(row.ending, row.attempt) for row in ended} == {("acked", 1)}
    assert any(row.reserved_at == row.enqueued_at for row in ended)


@pytest.mark.parametrize("pause", [0, 0.001])
def test_no_row_is_lost_with_a_killed_slot(spark, url, pause):
    """Short rows, which the slot has stored and leased in one call, and longer rows, which other slots have stored."""
    rows, killed = (4_000 if pause else 40_000), []

    def handle(row):
        time.sleep(pause)
        return row["n"]

    def kill(progress):
        busy = [slot.executor for slot in progress.slots if slot.held]
        if busy and progress.done and not killed:
            killed.append(int(busy[0].rpartition(":")[2]))
            os.kill(killed[0], signal.SIGKILL)

    ok, dead = run(spark.range(rows).toDF("n"), handle, key="n", url=url, slots=2, options=OPTIONS, on_progress=kill)
    assert (len(killed), ok.count(), dead.count()) == (1, rows, 0)
    assert [row["holdfast"]["result"] for row in ok.where("n = 7").collect()] == ["7"]


def test_a_run_ignores_the_option_max_jobs(spark, url):
    few = replace(OPTIONS, max_jobs=3)
    ok, _ = run(spark.range(50).toDF("n"), lambda row: row["n"], key="n", url=url, slots=1, options=few)
    assert ok.count() == 50


def test_rows_with_the_same_key_and_different_values_are_refused(spark, url):
    df = spark.createDataFrame([(1, "a", 5), (1, "b", 5)], "n int, word string, same int")
    with pytest.raises(InvalidInput, match=r"two different rows with n=1: they differ in word$"):
        run(df, len, key="n", url=url, options=OPTIONS)


def test_a_run_with_too_many_dead_rows_is_stopped(spark, url):
    def fail(_row):
        raise Unrecoverable("never")

    with pytest.raises(TooManyDead) as caught:
        run(spark.range(3000).toDF("n"), fail, key="n", url=url, max_dead_ratio=0.1, slots=1, options=OPTIONS)
    assert caught.value.dead == caught.value.ended >= 100
    ok, dead = caught.value.result
    assert (ok.count(), dead.count()) == (0, caught.value.result.summary.dead)
    assert dead.count() >= caught.value.dead


def test_rows_that_are_dead_since_an_earlier_call_count_for_the_ratio(spark, url):
    def fail(row):
        if row["n"] < 120:
            raise Unrecoverable("never")

    named = {"key": "n", "url": url, "run": "ratio", "slots": 1, "options": OPTIONS}
    run(spark.range(120).toDF("n"), fail, **named)
    with pytest.raises(TooManyDead, match=r"120 of 1[23]"):
        run(spark.range(130).toDF("n"), fail, max_dead_ratio=0.5, **named)


def test_the_handler_may_be_a_handler_of_an_app(spark, app, url):
    @app.handler("double")
    def double(row):
        return row["n"] * 2

    ok, _ = run(spark.range(3).toDF("n"), double, key=["n"], url=url, slots=1, options=OPTIONS)
    assert sorted(row["holdfast"]["result"] for row in ok.collect()) == ["0", "2", "4"]


def test_a_handler_of_chunks_returns_one_outcome_for_each_row(spark, url):
    def score(rows):
        if any(row["n"] == 77 for row in rows):
            raise RuntimeError("poison")
        return [Unrecoverable("odd luck") if row["n"] % 10 == 3 else len(rows) for row in rows]

    df = spark.range(100).toDF("n")
    ok, dead = run(df, score, key="n", url=url, chunk=20, max_attempts=2, slots=1, options=OPTIONS)
    results = {row["n"]: int(row["holdfast"]["result"]) for row in ok.collect()}
    assert max(results.values()) > 1
    assert sorted(row["n"] for row in dead.collect()) == [3, 13, 23, 33, 43, 53, 63, 73, 77, 83, 93]
    assert len(results) == 89


def test_cancelled_rows_are_not_counted_as_dead():
    settled = Counter(acked=90, dead=10, cancelled=200)
    progress = Progress(
        ready=0, inflight=0, done=90, dead=10, cancelled=200, rate=0.0, slots=(), settled=settled, elapsed=1.0
    )
    _limit_dead(0.1, None, [])(progress)
    with pytest.raises(TooManyDead, match="10 of 100"):
        _limit_dead(0.09, None, [])(progress)


# What executors hold ----------------------------------------------------------------------------------------


def held_ids(spark):
    """The ids of all RDDs that executors hold, after Spark has freed those that nothing refers to."""
    gc.collect()
    spark._jvm.java.lang.System.gc()
    return {int(number) for number in spark.sparkContext._jsc.getPersistentRDDs()}


def wait_until_freed(spark, before):
    """Until executors hold nothing that they did not hold before."""
    deadline = time.monotonic() + 240
    while held := held_ids(spark) - before:
        assert time.monotonic() < deadline, held
        # Threads of Spark refer to the last plan that they ran until they run another, or end: after an idle minute.
        spark.range(2, numPartitions=2).mapInArrow(lambda batches: batches, "id long").groupBy("id").count().collect()
        time.sleep(0.5)  # a try takes as much processor time: it collects the garbage of two processes


def test_executors_hold_one_copy_of_the_rows_until_both_frames_are_collected(spark, url):
    before = held_ids(spark)
    ok, dead = run(spark.range(20).toDF("n"), lambda row: row["n"], key="n", url=url, slots=1, options=OPTIONS)
    assert ok.count() == 20
    assert len(held_ids(spark) - before) == 1  # neither the input rows nor the outcomes are held apart from it
    del ok
    assert dead.count() == 0
    assert len(held_ids(spark) - before) == 1
    derived = dead.select("n")
    del dead
    assert derived.count() == 0
    assert len(held_ids(spark) - before) == 1
    del derived
    wait_until_freed(spark, before)


def test_unpersist_frees_the_rows_of_a_result(spark, url):
    before = held_ids(spark)
    result = run(spark.range(20).toDF("n"), lambda row: row["n"], key="n", url=url, slots=1, options=OPTIONS)
    assert len(held_ids(spark) - before) == 1
    result.unpersist()
    result.unpersist()  # again: nothing happens
    assert held_ids(spark) <= before
    with pytest.raises(Exception, match=r"(?i)checkpoint"):
        result.ok.collect()


def test_each_call_has_its_own_result(spark, url, tmp_path):
    """One input frame, at the same time in two threads, and again after its table has changed."""
    table = str(tmp_path / "table")
    spark.range(10).toDF("n").write.parquet(table)

    def results(offset):
        df = spark.read.parquet(table)
        ok, _ = run(df, lambda row: row["n"] + offset, key="n", url=url, slots=1, options=OPTIONS)
        return sorted(int(row["result"]) for row in ok.select("holdfast.result").collect())

    before = held_ids(spark)
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(results, [0, 100])) == [list(range(10)), list(range(100, 110))]
    spark.range(5, 8).toDF("n").write.mode("overwrite").parquet(table)
    assert results(0) == [5, 6, 7]
    wait_until_freed(spark, before)


def test_a_run_that_fails_holds_nothing(spark, url):
    before = held_ids(spark)
    df = spark.createDataFrame([(1, "a"), (1, "b")], "n int, word string")
    with pytest.raises(InvalidInput):
        run(df, len, key="n", url=url, options=OPTIONS)
    wait_until_freed(spark, before)


def test_executors_hold_the_outcomes_of_a_queue_until_the_frame_is_collected(spark, app):
    handle = app.handler("t")(lambda payload: payload)
    app.client.enqueue([handle.request(number) for number in range(20)])
    before = held_ids(spark)
    outcomes = run_queue(app, spark=spark, slots=1, options=OPTIONS)
    assert outcomes.count() == 20
    assert len(held_ids(spark) - before) == 1
    del outcomes
    wait_until_freed(spark, before)
