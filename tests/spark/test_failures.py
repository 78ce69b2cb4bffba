"""What a user sees when a write or a run fails on Spark: one reason, without traces of Holdfast and of the JVM."""

import json

import pytest
from pyspark.errors import PythonException

from holdfast.errors import SparkTaskFailed
from holdfast.spark.execution.failures import to_failure
from tests.spark.clusters import PROGRAMS, Program

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
