"""``holdfast init``: each template is a project that works; tests/spark has the one for Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast
from holdfast.cli.commands.init import TEMPLATES

HOLDFAST = [sys.executable, "-m", "holdfast"]


def output_of(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def test_the_script_enqueues_and_a_worker_runs_the_job(run, folder):
    out = run("init").out
    assert "wrote holdfast.toml\n" in out
    assert "next:  python tasks.py" in out
    assert "is waiting" in output_of(sys.executable, "tasks.py")
    assert "1 acked" in output_of(*HOLDFAST, "work", "tasks:app", "--until-drained", "--processes", "1")
    with holdfast.connect(f"sqlite:///{folder}/jobs.db") as store:
        assert [(count.type, count.done) for count in store.counts()] == [("hello", 1)]


def test_the_project_reads_its_settings(run, folder):
    run("init")
    settings = (folder / "holdfast.toml").read_text(encoding="utf-8")
    (folder / "holdfast.toml").write_text(settings.replace("jobs.db", "elsewhere.db"), encoding="utf-8")
    output_of(sys.executable, "tasks.py")
    assert (folder / "elsewhere.db").exists()
    assert not (folder / "jobs.db").exists()


@pytest.mark.parametrize("template", ["script", "fastapi"])
def test_the_tests_of_a_template_pass(run, folder, template):
    run("init", "--template", template)
    shown = output_of(sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "2 passed" in shown
    assert not list(folder.glob("*.db"))


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_file_of_a_template_is_named_in_its_readme(run, folder, template):
    out = run("init", "--template", template).out
    written = {path.name for path in folder.iterdir()}
    assert {f"wrote {name}" for name in written} <= set(out.splitlines())
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for name in written - {"README.md", "pytest.ini"}:
        assert f"`{name}`" in readme or "pytest " in readme, name
    assert 'url = "sqlite:///jobs.db"\n' in (folder / "holdfast.toml").read_text(encoding="utf-8")


def test_nothing_is_overwritten(run, folder):
    (folder / "tasks.py").write_text("mine")
    assert "exists already, nothing was written: tasks.py" in run("init", code=1).err
    assert [path.name for path in folder.iterdir()] == ["tasks.py"]
    assert (folder / "tasks.py").read_text() == "mine"


def test_an_unknown_template_is_refused(run):
    assert "'django' is not one of 'script', 'fastapi', 'spark'" in run("init", "--template", "django", code=2).err
