"""What a user sees when a write or a run fails on Spark: one reason, without traces of Holdfast and of the JVM."""

import json

import pytest
from pyspark.errors import PythonException

from holdfast.errors import SparkTaskFailed
from holdfast.spark import run, run_queue
from holdfast.spark.execution.engine import to_failure
from tests.spark.clusters import PROGRAMS, Program
from tests.spark.conftest import OPTIONS

ROOT = PROGRAMS.parents[2]


@pytest.mark.timeout(600)
def test_a_failure_is_one_clear_reason(tmp_path):
    (tmp_path / "only_here.py").write_text("def handle(payload):\n    pass\n", encoding="utf-8")
    command = (PROGRAMS / "failures.py", f"sqlite:///{tmp_path}/jobs.db", tmp_path)
    with Program(*command, folder=ROOT, PYTHONPATH=f"{ROOT / 'src'}:{ROOT}") as program:
        errors = json.loads(program.output())
        printed = program.error_output()
    for text in (*errors["rows"], errors["option"]):
        assert len([line for line in text.splitlines() if line.strip()]) <= 7, text
    assert "x: wanted a finite number, got NaN or infinity" in errors["rows"][1]
    assert "option typ: wanted an option of the sink" in errors["option"]
    assert errors["module"].startswith(
        "a Spark task failed: ModuleNotFoundError: No module named 'only_here': executors cannot import only_here;"
    )
    assert len(printed.splitlines()) <= 5, printed


def test_the_reason_is_what_comes_after_the_traceback():
    text = 'An exception was thrown:\nTraceback (most recent call last):\n  File "a.py", line 1, in b\n    c()\n'
    failure = to_failure(PythonException(f"{text}ValueError: two\nlines\n SQLSTATE: 38000"))
    assert isinstance(failure, SparkTaskFailed)
    assert failure.reason == "ValueError: two lines"
    other = KeyError("other")
    assert to_failure(other) is other


def test_spark_jobs_are_named_after_the_run_and_its_queue(spark, app):
    app.handler("t", queue="orders")(len).enqueue([1])
    run_queue(app, spark=spark, slots=1, options=OPTIONS)
    run(spark.range(1), lambda row: row["id"], key="id", url=app.url, run="named", slots=1, options=OPTIONS)
    spark.range(1).count()
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    jobs = sorted((jobs.apply(number) for number in range(jobs.size())), key=lambda job: job.jobId())
    names = [job.description().get() if job.description().isDefined() else "" for job in jobs]
    assert any(name.startswith("holdfast orders (") for name in names)
    assert any(name.startswith("holdfast run:named") for name in names)
    assert "holdfast" not in names[-1]
