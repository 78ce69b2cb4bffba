"""What may be a handler of ``run``, and what it may return."""

import itertools
import sys
from datetime import timedelta
from functools import partial

import numpy as np
import pandas as pd
import pytest
from pyspark import cloudpickle
from pyspark.sql import Row

from holdfast import Client, Holdfast, connect
from holdfast.drivers.requests import Scan, Settings
from holdfast.errors import InvalidInput
from holdfast.model.limit_proposal import QueueLimits
from holdfast.spark import run
from holdfast.wire.guard_entries import MARK_KIND, is_done
from tests.spark.conftest import OPTIONS

MINUTE = timedelta(minutes=1)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors cannot import the tests


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


def add(amount, row):
    return row["id"] + amount


class Adder:
    def __init__(self, amount):
        self.amount = amount

    def __call__(self, row, ctx):
        return row["id"] + self.amount + ctx.attempt


class AsyncAdder:
    async def __call__(self, row):
        return row["id"]


def results(result):
    assert result.dead.count() == 0
    return [row["result"] for row in result.ok.orderBy("id").select("holdfast.result").collect()]


@pytest.mark.parametrize(("handler", "result"), [(partial(add, 5), "6"), (Adder(5), "7"), (AsyncAdder(), "1")])
def test_a_partial_and_a_callable_object_are_handlers(spark, url, handler, result):
    assert results(run(spark.range(1, 2), handler, key="id", url=url, slots=1, options=OPTIONS)) == [result]


def test_the_rows_of_a_run_have_limits_over_all_slots(spark, url):
    limited = run(
        spark.range(6),
        partial(add, 0),
        key="id",
        url=url,
        run="r",
        rate="100/s",
        max_inflight=1,
        slots=2,
        options=OPTIONS,
    )
    assert results(limited) == [str(number) for number in range(6)]
    with connect(url) as store:
        assert QueueLimits.of(store.do(Settings(queue="run:r"))) == QueueLimits(rate=100, max_inflight=1)
        leases = sorted((row.reserved_at, row.ended_at) for row in store.ledger().items)
    assert all(ended <= reserved for (_, ended), (reserved, _) in itertools.pairwise(leases))


def test_results_of_numpy_and_pandas_and_nan_are_values(spark, url):
    def answer(row):
        return [
            np.int64(3),
            np.float32(0.5),
            np.array([[1, 2], [3, 4]]),
            {"a": np.bool_(True), "b": [np.nan, float("inf")]},
            pd.Series([1.5, None]),
            pd.DataFrame({"x": [1, 2], "y": ["a", "b"]}),
            pd.Timestamp("2026-01-02T03:04:05Z"),
            pd.NaT,
            pd.NA,
            Row(x=1, y=Row(z=2)),
            np.datetime64("2026-01-02"),
            float("nan"),
        ][row["id"]]

    assert results(run(spark.range(12), answer, key="id", url=url, slots=1, options=OPTIONS)) == [
        *("3", "0.5", "[[1,2],[3,4]]", '{"a":true,"b":["NaN","Infinity"]}', '[1.5,"NaN"]'),
        *('[{"x":1,"y":"a"},{"x":2,"y":"b"}]', '"2026-01-02T03:04:05Z"', None, None, '{"x":1,"y":{"z":2}}'),
        *('"2026-01-02"', '"NaN"'),
    ]


@pytest.mark.parametrize(("own", "given", "runs"), [(2, None, 2), (None, None, 3), (2, 1, 1)])
def test_a_row_has_the_attempts_of_the_call_or_of_the_handler_or_three(spark, url, own, given, runs):
    app = Holdfast(url)

    @app.handler("fails", max_attempts=own)
    def fails(_row):
        raise ValueError

    result = run(spark.range(1), fails, key="id", url=url, max_attempts=given, slots=1, options=OPTIONS)
    assert [row["attempts"] for row in result.dead.select("holdfast.attempts").collect()] == [runs]


def contains_itself():
    loop = []
    loop.append(loop)
    return loop


UNSTORABLE = [
    ({(1, 2): 3}, "a key of result"),
    (2**80, "64 bits"),
    ("\ud800", "lone surrogates"),
    (object, "wanted a JSON value"),
    ("x" * (2 << 20), "at most 1048576 bytes"),
    ({1: 2, "1": 3}, "each text once"),
    ({pd.NA: 2, None: 3}, "a key of result"),
    (contains_itself, "recursion"),
]


@pytest.mark.parametrize("chunk", [None, 3])
def test_a_row_whose_result_cannot_be_stored_is_dead_and_counted(spark, url, tmp_path, chunk):
    def one(row):
        with (tmp_path / "calls").open("a") as calls:
            calls.write(f"{row['id']}\n")
        result, _ = UNSTORABLE[row["id"]]
        return result() if callable(result) else result

    handler = one if chunk is None else lambda rows: [one(row) for row in rows]
    result = run(spark.range(8), handler, key="id", url=url, slots=1, chunk=chunk, options=OPTIONS)
    rows = result.dead.orderBy("id").select("holdfast.*").collect()
    assert [(row["reason"], row["attempts"], row["result"]) for row in rows] == [("bad result", 1, None)] * 8
    assert all(part in row["error"] for row, (_, part) in zip(rows, UNSTORABLE, strict=True)), rows
    assert (result.summary.done, result.summary.dead, result.summary.unstored) == (0, 8, 8)
    assert str(result.summary) == "0 done, 8 dead; 8 results not stored"
    assert len((tmp_path / "calls").read_text().splitlines()) == 8  # the work was done, and is not done again


def test_a_handler_may_say_that_rows_are_done_without_their_results(spark, url):
    app = Holdfast(url)

    @app.handler("lenient", strict_result=False)
    def lenient(row):
        return [object(), None, 7][row["id"]]

    lenient_run = run(spark.range(3), lenient, key="id", url=url, slots=1, options=OPTIONS)
    assert results(lenient_run) == [None, None, "7"]
    assert (lenient_run.summary.done, lenient_run.summary.unstored) == (3, 1)


def test_numbers_as_keys_of_a_result_become_text(spark, url):
    def answer(row):
        return {1: 2, 1.5: {None: True}, np.int64(3): 4, np.float64(0.5): np.int64(5), False: 6}

    assert results(run(spark.range(1), answer, key="id", url=url, slots=1, options=OPTIONS)) == [
        '{"1":2,"1.5":{"null":true},"3":4,"0.5":5,"false":6}'
    ]


def test_a_chunk_may_return_an_array(spark, url):
    def score(rows):
        return np.array([row["id"] for row in rows]) * 1.5

    assert results(run(spark.range(3), score, key="id", url=url, slots=1, chunk=10, options=OPTIONS)) == [
        "0.0",
        "1.5",
        "3.0",
    ]


def test_a_chunk_with_a_result_too_few_fails_as_one_attempt_of_each_row(spark, url, tmp_path):
    def score(rows):
        with (tmp_path / "calls").open("a") as calls:
            calls.write(f"{len(rows)}\n")
        return [0] * (len(rows) - 1)

    df = spark.range(64)
    ok, dead = run(df, score, key="id", url=url, slots=1, chunk=64, max_attempts=1, options=OPTIONS)
    assert (ok.count(), dead.count()) == (0, 64)
    calls = list(map(int, (tmp_path / "calls").read_text().split()))
    assert sum(calls) == 64
    errors = {row["error"].splitlines()[0] for row in dead.select("holdfast.error").collect()}
    assert all(f"wanted {size}, got {size - 1}" in " ".join(errors) for size in calls)


def test_a_row_that_cannot_be_a_payload_is_dead_and_the_others_run(spark, url):
    texts = "case id when 2 then repeat('x', 2000000) when 3 then cast(X'61ff' as string) else 'abc' end"
    df = spark.sql(f"select id, {texts} as text from range(5)")
    calls = [run(df, lambda row: len(row["text"]), key="id", url=url, run="r", slots=1, options=OPTIONS) for _ in "12"]
    for result in calls:  # the second call finds the same rows
        assert [row["id"] for row in result.ok.orderBy("id").select("id").collect()] == [0, 1, 4]
        dead = result.dead.orderBy("id").select("id", "holdfast.*").collect()
        assert [(row["id"], row["reason"], row["attempts"]) for row in dead] == [
            (2, "bad payload", 1),
            (3, "bad payload", 1),
        ]
        assert dead[0]["error"] == "row with id='2': payload: wanted at most 1048576 bytes, got 2000018 bytes"
        assert "row with id='3': text: wanted text in UTF-8, got 'utf-8' codec can't decode" in dead[1]["error"]
    with pytest.raises(Exception, match=r"payload: wanted at most 1048576 bytes, got 2000018"):
        df.where("id <> 3").write.format("holdfast").options(url=url, type="t").mode("append").save()


def test_a_key_and_a_domain_that_are_not_utf8_are_those_of_dead_rows(spark, url):
    df = spark.sql("select id, cast(unhex(concat('61', if(id = 1, 'ff', '62'))) as string) as k from range(3)")
    result = run(df, lambda _: 1, key=["id", "k"], order_by=("k", "id"), url=url, slots=1, options=OPTIONS)
    assert (result.summary.done, result.summary.dead) == (2, 1)
    [row] = result.dead.select("holdfast.*").collect()
    assert "row with id='1', k=b'a\\xff'" in row["error"]


def test_a_handler_of_an_app_keeps_its_options_guards_limits_and_resources(spark, url):
    app = Holdfast(url)

    @app.resource
    def amount():
        return 100

    @app.middleware
    def announce(ctx, call_next):
        print("row", ctx.attempt)
        return call_next()

    @app.handler(
        "add",
        idempotent=True,
        single_instance="adder",
        capture_output=True,
        rate="500/s",
        max_inflight=2,
        timeout=MINUTE,
    )
    def add_amount(row, ctx):
        return row["id"] + ctx.resources["amount"]

    ok, dead = run(spark.range(2), add_amount, key="id", url=url, run="r", slots=1, options=OPTIONS)
    assert (sorted(row["holdfast"]["result"] for row in ok.collect()), dead.count()) == (["100", "101"], 0)
    with connect(url) as store:
        assert QueueLimits.of(store.do(Settings(queue="run:r"))) == QueueLimits(rate=500, max_inflight=2)
        marks = store.do(Scan(kind=MARK_KIND, limit=10))
        assert (len(marks), all(map(is_done, marks))) == (2, True)
        client = Client(store)
        assert {client.execution(row["holdfast"]["job_id"]).output for row in ok.collect()} == {"row 1\n"}
        run(spark.range(2), add_amount, key="id", url=url, run="r", rate="7/s", slots=1, options=OPTIONS)
        assert QueueLimits.of(store.do(Settings(queue="run:r"))) == QueueLimits(rate=7)
    app.close()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"single_instance": True}, "max_inflight=1 of run is the same"),
        ({"limit_key": "id"}, "rate and max_inflight limit the run"),
    ],
)
def test_a_handler_with_an_option_that_rows_do_not_have_is_refused(spark, url, option, message):
    task = Holdfast(url).handler("add", **option)(partial(add, 1))
    with pytest.raises(InvalidInput, match=message):
        run(spark.range(2), task, key="id", url=url, slots=1, options=OPTIONS)


def test_the_allowed_handlers_of_the_queue_of_a_run_hold(spark, url, tmp_path, monkeypatch):
    (tmp_path / "holdfast.toml").write_text('[queues."run:r"]\nhandlers = ["other"]\n')
    monkeypatch.chdir(tmp_path)
    ok, dead = run(spark.range(2), partial(add, 1), key="id", url=url, run="r", slots=1, options=OPTIONS)
    assert (ok.count(), [row["holdfast"]["reason"] for row in dead.collect()]) == (0, ["not allowed"] * 2)
