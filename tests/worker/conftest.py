from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
import holdfast.driver
from holdfast import linux
from holdfast.app import Holdfast
from holdfast.model.retry import Fixed
from holdfast.worker.timing import WorkerTiming

PORTABLE = Path(__file__).parent / "portable"  # has a sitecustomize.py, for the programs that tests start
QUICK = Fixed(timedelta(milliseconds=1))
KEEP_RESERVED = WorkerTiming(release_seconds=60.0)  # a slow machine releases no job that waits for a child


@pytest.fixture(autouse=True, params=["linux", pytest.param("portable", marks=pytest.mark.long)])
def platform(request, monkeypatch):
    """With ``--all`` every test runs a second time without what only Linux has, as on macOS."""
    if request.param == "portable":
        if request.node.get_closest_marker("linux_only"):
            pytest.skip("shows what only Linux has")
        monkeypatch.setattr(linux, "IS_LINUX", False)
        monkeypatch.setenv("PYTHONPATH", str(PORTABLE))
    return request.param


@pytest.fixture
def app(tmp_path):
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")
    yield app
    app.close()


@pytest.fixture
def drain(app):
    """Run a worker until the queues are drained; return how many attempts ended with which status."""

    def run(timing=KEEP_RESERVED, **keywords):
        defaults = {
            "queues": tuple(app.queues),
            "processes": 2,
            "lease": timedelta(seconds=2),
            "grace": timedelta(milliseconds=300),
            "retry": QUICK,
            "until_drained": True,
        }
        worker = app.worker(**{**defaults, **keywords})
        worker.timing = timing
        return worker.run()

    return run


def ended(app, answer: holdfast.Enqueued) -> holdfast.driver.JobRecord:
    record = app.client.get(answer.id)
    assert record is not None
    assert record.state.has_ended, record
    return record
