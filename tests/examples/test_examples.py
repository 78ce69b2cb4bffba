"""Every example runs and its assertions hold; tests/spark runs the examples that need Spark."""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
DEMO = EXAMPLES / "demo.py"
ALL = sorted(path for path in EXAMPLES.glob("*.py") if not path.name.startswith("_"))
WITHOUT_SPARK = [path.name for path in ALL if "holdfast.spark" not in path.read_text("utf-8")]


def run(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-W", "error", *map(str, arguments)]
    return subprocess.run(argv, env=environment(folder), capture_output=True, text=True, timeout=120, check=False)


def environment(folder: Path) -> dict[str, str]:
    """Temporary files go to a folder of the test, so that remaining files are noticed."""
    return os.environ | {"TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8", "COLUMNS": "80"}


@pytest.mark.parametrize("name", WITHOUT_SPARK)
def test_an_example_runs_prints_and_removes_its_files(name, tmp_path):
    result = run(EXAMPLES / name, folder=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_readme_lists_every_example():
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    assert [path.name for path in ALL if f"[`{path.name}`]({path.name})" not in readme] == []


# The demo; tests/spark runs it to the end -----------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("--orders", "5"), ("--out", str(EXAMPLES))])
def test_the_demo_refuses_invalid_options(arguments, tmp_path):
    result = run(DEMO, *arguments, folder=tmp_path)
    assert result.returncode == 2
    assert f"{arguments[0]}: wanted" in result.stderr


def test_the_demo_counts_the_lines_of_the_log(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    count_events = runpy.run_path(str(DEMO))["count_events"]
    log = """child.replaced pid=7 exit="killed by SIGKILL" reason=crashed jobs=3 worker=a
lease.reaped leases=40 worker=a
lease.reaped leases=2 worker=a
13:30:00 ERROR Executor: anything else
"""
    assert count_events(log) == {"child.replaced": 1, "lease.reaped": 42}


@pytest.mark.xdist_group("spark-programs")  # starts its own Spark: see tests/spark/conftest.py
def test_an_interrupted_demo_leaves_no_process(tmp_path):
    argv = [sys.executable, str(DEMO), "--out", str(tmp_path / "out")]
    with subprocess.Popen(argv, env=environment(tmp_path), stdout=subprocess.PIPE, start_new_session=True) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if b"started in" in line:
                break
        demo.send_signal(signal.SIGTERM)
        demo.communicate(timeout=60)
    assert demo.returncode == 128 + signal.SIGTERM
    deadline = time.monotonic() + 60
    while (remaining := session_processes(demo.pid)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert remaining == []


def session_processes(leader: int) -> list[int]:
    """The process ids of a session."""
    pids = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session, *_ = stat.read_text().rpartition(")")[2].split()
            if int(session) == leader and state != "Z":
                pids.append(int(stat.parent.name))
    return pids
