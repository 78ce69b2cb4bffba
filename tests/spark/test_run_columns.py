"""The columns of a run: those of the input stay as they are, beside one column for the outcome."""

import time

import pandas as pd
import pytest

import holdfast.errors
import holdfast.spark
from holdfast.errors import InvalidInput
from holdfast.spark import run, run_queue
from tests.spark.conftest import OPTIONS

FIELDS = ["result", "attempts", "error", "reason", "state", "job_id"]


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


def refuse_to_run(row):
    raise AssertionError(row)


def test_the_columns_of_the_input_stay_as_they_are(spark, url):
    names = [
        "key",
        "state",
        "result",
        "attempts",
        "error",
        "reason",
        "job_id",
        "a.b",
        "c d",
        "`e`",
        "c0",
        "_holdfast_key",
    ]
    columns = ", ".join(f"'{name}' as `{name.replace('`', '``')}`" for name in names)
    df = spark.sql(f"select {columns}, id as `the.id` from range(4)")
    ok, dead = run(df, lambda row: row if row["the.id"] else 1 / 0, key="the.id, `e`", max_attempts=1, url=url, slots=1)
    assert ok.columns == dead.columns == [*names, "the.id", "holdfast"]
    assert ok.drop("holdfast").schema == df.schema
    assert {tuple(row)[: len(names)] for row in [*ok.collect(), *dead.collect()]} == {tuple(names)}
    assert ok.select("holdfast.*").columns == FIELDS
    [failed] = [row["holdfast"] for row in dead.collect()]
    assert (failed["state"], failed["reason"], failed["result"]) == ("dead", "attempts exhausted", None)
    assert "ZeroDivisionError" in failed["error"]


def test_names_of_columns_follow_the_case_rule_of_the_session(spark, url):
    df = spark.sql("select id as Id, id % 2 as Customer, 0 as Holdfast from range(4)")
    ok, _ = run(df, lambda row: row["Id"], key="ID", order_by="customer, iD", url=url, slots=1, options=OPTIONS)
    assert ok.columns == ["Id", "Customer", "Holdfast", "holdfast_2"]
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(InvalidInput, match=r"key: wanted columns of Id, Customer, Holdfast, got ID"):
            run(df, refuse_to_run, key="ID", url=url)
        ok, _ = run(df, lambda row: row["Id"], key="Id", url=url, slots=1, options=OPTIONS)
        assert ok.columns == ["Id", "Customer", "Holdfast", "holdfast"]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_the_result_of_a_run_is_the_input_of_another(spark, url):
    first = run(spark.range(3), lambda row: row["id"], key="id", url=url, slots=1)
    second = run(first.ok, lambda row: int(row["holdfast"]["result"]) + 1, key="id", url=url, slots=1)
    assert second.ok.columns == ["id", "holdfast", "holdfast_2"]
    results = second.ok.orderBy("id").selectExpr("holdfast.result", "holdfast_2.result").collect()
    assert [tuple(row) for row in results] == [("0", "1"), ("1", "2"), ("2", "3")]


def test_the_outcome_has_another_name_or_a_column_for_each_field(spark, url):
    df = spark.range(1)
    ok, _ = run(df, lambda row: row["id"], key="id", url=url, slots=1, column="out come")
    assert ok.selectExpr("`out come`.state").collect() == [("done",)]
    ok, dead = run(df, lambda row: row["id"], key="id", url=url, slots=1, flatten=True)
    assert ok.columns == dead.columns == ["id", *FIELDS]
    assert ok.select("result", "state").collect() == [("0", "done")]


@pytest.mark.parametrize(
    ("select", "options", "message"),
    [
        ("id, 1 as State", {"flatten": True}, "flatten: wanted an input without these columns, got state"),
        ("id, 1 as out", {"column": "OUT"}, "column: wanted a name that is free, got OUT"),
        ("id", {"column": ""}, "column: wanted a name that is free"),
        ("id", {"column": "x", "flatten": True}, "column: wanted no name beside flatten"),
        ("id, id", {}, "columns: wanted at least one, and each name once, got id"),
        ("id, named_struct('a', 1, 'a', 2) as s", {}, "each name of a struct once, got s struct<a:int,a:int>"),
        ("id", {"key": "other"}, "key: wanted columns of id, got other"),
        ("id", {"key": []}, "key: wanted columns of id, got nothing"),
        ("id, 1D as x", {"key": "id,x"}, "key: wanted a column with text, .*, got x double"),
        ("if(id = 0, null, id) as id", {}, "key id: wanted a value in every row, got null"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_anything_runs(spark, url, select, options, message):
    with pytest.raises(InvalidInput, match=message):
        run(spark.sql(f"select {select} from range(2)"), refuse_to_run, **{"key": "id", "url": url, **options})


class NoSpark:
    """A frame of Spark whose use fails: for arguments that are refused before it."""

    @property
    def sparkSession(self):  # noqa: N802 - the name of Spark
        raise AssertionError


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (NoSpark(), {"run": ""}, "run: wanted 1 to 128 of the characters"),
        (NoSpark(), {"max_attempts": 0}, "max_attempts: wanted a whole number from 1 to 2147483647, got 0"),
        (NoSpark(), {"options": {}}, r"options: wanted WorkerOptions\(...\), or None for the defaults, got {}"),
        (pd.DataFrame({"id": [1]}), {}, "df: wanted a DataFrame of Spark.*got pandas.DataFrame"),
    ],
)
def test_arguments_are_refused_before_spark_works(url, frame, options, message):
    with pytest.raises(InvalidInput, match=message):
        run(frame, refuse_to_run, key="id", url=url, **options)


def test_worker_options_that_are_none_are_refused_before_spark_starts(app):
    with pytest.raises(InvalidInput, match="options: wanted WorkerOptions"):
        run_queue(app, options={})


def test_lengths_and_policies_may_be_texts(spark, url):
    def slow(row, ctx):
        if ctx.attempt == 1:
            time.sleep(60)
        return str(ctx.job.timeout), ctx.attempt

    for option in ("timeout", "retry"):
        with pytest.raises(InvalidInput, match=f"{option}.*: wanted"):
            run(spark.range(1), slow, key="id", url=url, **{option: "often"})
    ok, _ = run(spark.range(1), slow, key="id", url=url, timeout="200ms", retry="fixed(10ms)", slots=1, options=OPTIONS)
    assert [row["attempts"] for row in ok.select("holdfast.attempts").collect()] == [2]


def test_the_errors_of_run_are_in_the_package_of_run():
    for name in ("InvalidInput", "OutcomesTrimmed", "RunError", "SparkTaskFailed", "TooManyDead"):
        assert getattr(holdfast.spark, name) is getattr(holdfast.errors, name)
        assert name in holdfast.spark.__all__


def test_a_frame_without_columns_is_refused(spark, url):
    with pytest.raises(InvalidInput, match="key: wanted columns of a frame that has some, got id"):
        run(spark.range(2).select(), refuse_to_run, key="id", url=url)
    with pytest.raises(Exception, match="columns: wanted at least one, and each name once, got none"):
        spark.range(2).select().write.format("holdfast").options(url=url, type="t").mode("append").save()


def test_a_column_with_commas_can_be_the_key(spark, url):
    df = spark.sql("select id as `a,b` from range(2)")
    assert run(df, lambda _row: None, key="a,b", url=url, slots=1, options=OPTIONS).ok.count() == 2
    df.write.format("holdfast").options(url=url, type="t", key="a,b").mode("append").save()
