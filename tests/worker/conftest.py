from datetime import timedelta

import pytest

import holdfast
import holdfast.driver
from holdfast.app import Holdfast
from holdfast.model.retry import Fixed
from holdfast.worker.timing import WorkerTiming

QUICK = Fixed(timedelta(milliseconds=1))


@pytest.fixture
def app(tmp_path):
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")
    yield app
    app.close()


@pytest.fixture
def drain(app):
    """Run a worker until the queues are drained; return how many attempts ended with which status."""

    def run(timing=WorkerTiming(), **keywords):
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
