"""The driver of the guide is found by its URL, passes the suite, and runs a worker's jobs."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast import Holdfast
from holdfast.errors import ConnectError, Unsupported

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install the example as a package with an entry point."""
    folder = tmp_path / "holdfast_dict-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: holdfast-dict\nVersion: 1.0\n", encoding="utf-8")
    (folder / "entry_points.txt").write_text("[holdfast.drivers]\ndict = core_driver:open_url\n", encoding="utf-8")
    for path in (tmp_path, EXAMPLES):
        monkeypatch.syspath_prepend(path)
    return os.pathsep.join(map(str, (tmp_path, EXAMPLES)))


def command(installed, *arguments) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "holdfast", *arguments]
    environment = os.environ | {"PYTHONPATH": installed, "HOLDFAST_URL": "dict://"}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_conform_passes_it(installed):
    ran = command(installed, "conform", "dict://")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " 0 fail" in ran.stdout.splitlines()[-1]


def test_doctor_says_what_it_lacks(installed):
    ran = command(installed, "doctor")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "without the registry: this driver has the core alone" in " ".join(ran.stdout.split())


@pytest.mark.parametrize("arguments", [("worker", "list"), ("worker", "show", "a"), ("job", "list"), ("trim",)])
def test_a_command_that_needs_more_says_so(installed, arguments):
    ran = command(installed, *arguments)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "this driver has the core alone" in ran.stderr


def test_a_command_about_one_job_needs_the_core_alone(installed):
    ran = command(installed, "job", "show", "a")
    assert "no job a in this space" in ran.stderr


def test_a_worker_runs_its_jobs(installed):
    app = Holdfast("dict://")
    task = app.handler("work")(lambda number: number)
    job = task.enqueue(1)
    assert app.worker().process_once().status == "acked"
    assert app.client.wait(job.id, timeout=0).state == "done"
    with pytest.raises(Unsupported, match="results: this driver has the core alone"):
        app.client.result(job.id)
    with pytest.raises(Unsupported, match="run_at and delays"):
        task.enqueue(1, delay=timedelta(seconds=1))
    app.close()


def test_an_unknown_option_is_refused(installed):
    with pytest.raises(ConnectError):
        holdfast.connect("dict://?durable=yes")
