"""Every Spark example runs in a session of the tests, and leaves no files."""

import json
import runpy
import sys
import tempfile
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
DEMO = EXAMPLES / "demo.py"
ON_SPARK = sorted(path for path in EXAMPLES.glob("*.py") if "session()" in path.read_text("utf-8"))


@pytest.fixture
def run(spark, tmp_path, monkeypatch):
    """Return a function that runs a script as the main module."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.syspath_prepend(EXAMPLES)  # as for a script

    def run(path, *arguments):
        monkeypatch.setattr(sys, "argv", [str(path), *map(str, arguments)])
        runpy.run_path(str(path), run_name="__main__")

    yield run
    spark.sparkContext.setLogLevel("ERROR")  # the demo turns logging off


@pytest.mark.parametrize("path", [path for path in ON_SPARK if path != DEMO], ids=lambda path: path.name)
def test_an_example_runs_prints_and_leaves_no_files(path, run, capsys, tmp_path):
    run(path)
    assert capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_the_demo_kills_a_python_worker_and_loses_no_job(run, capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        run(DEMO, "--orders", 5000, "--json", "--out", tmp_path / "out")
    facts = json.loads(capsys.readouterr().out)
    assert (ended.value.code, facts["wrong"]) == (0, [])
    assert facts["killed"] > 0
    assert facts["endings"]["expired"] > 0
    assert facts["letters"] == {"no carrier goes there": 24, "poison": 1}
    assert facts["states"] == {"done": 4975, "dead": 25}
    assert "<h1>Holdfast demo</h1>" in (tmp_path / "out" / "report.html").read_text("utf-8")
