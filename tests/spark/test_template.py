"""The project of ``holdfast init --template spark`` on a real session."""

import importlib
import sys

import pytest
from click.testing import CliRunner
from pyspark import cloudpickle

from holdfast.cli.root import root


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The module with the tests of a new project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite:///{tmp_path}/jobs.db")
    monkeypatch.syspath_prepend(tmp_path)
    assert CliRunner().invoke(root, ["init", "--template", "spark"]).exit_code == 0
    tests = importlib.import_module("test_pipeline")
    jobs = sys.modules["jobs"]
    cloudpickle.register_pickle_by_value(jobs)  # the executors of this session began in another folder
    yield tests
    cloudpickle.unregister_pickle_by_value(jobs)
    jobs.app.close()
    for name in ("test_pipeline", "pipeline", "jobs"):
        del sys.modules[name]


@pytest.fixture
def holdfast_app_path(project):
    return sys.modules["jobs"].app


def test_the_handler_of_the_template_runs_alone(project, run_job):
    project.test_the_handler_alone(run_job)


def test_the_pipeline_of_the_template_runs_on_spark(spark, project):
    project.test_every_row_is_priced_or_refused()
