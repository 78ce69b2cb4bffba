"""Every example runs and keeps its own asserts; those on Spark run in tests/spark."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
DEMO = EXAMPLES / "demo.py"
ALL = sorted(path for path in EXAMPLES.glob("*.py") if not path.name.startswith("_"))
SMALL = [path.name for path in ALL if "holdfast.spark" not in path.read_text("utf-8")]


def run(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-W", "error", *map(str, arguments)]
    return subprocess.run(argv, env=environment(folder), capture_output=True, text=True, timeout=120, check=False)


def environment(folder: Path) -> dict[str, str]:
    """Temporary files in a folder of the test, so that leftovers are seen."""
    return os.environ | {"TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8", "COLUMNS": "80"}


@pytest.mark.parametrize("name", SMALL)
def test_example_runs_prints_and_leaves_nothing_behind(name, tmp_path):
    ran = run(EXAMPLES / name, folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_every_example_stands_in_the_readme():
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    assert [path.name for path in ALL if f"[`{path.name}`]({path.name})" not in readme] == []


# The demo; that it works is shown in tests/spark ----------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("--orders", "5"), ("--out", str(EXAMPLES))])
def test_the_demo_refuses_what_it_cannot_show(arguments, tmp_path):
    ran = run(DEMO, *arguments, folder=tmp_path)
    assert ran.returncode == 2
    assert f"{arguments[0]}: wanted" in ran.stderr


@pytest.mark.xdist_group("spark")  # a second Spark beside that one would slow both down
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
    while (left := of_session(demo.pid)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == []


def of_session(leader: int) -> list[int]:
    """The processes that a session still has."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session, *_ = stat.read_text().rpartition(")")[2].split()
            if int(session) == leader and state != "Z":
                found.append(int(stat.parent.name))
    return found
