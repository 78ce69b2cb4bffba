from datetime import timedelta

import pytest

import holdfast
import holdfast.driver
from holdfast.app import Holdfast
from holdfast.model.retry import Fixed
from holdfast.worker.worker import WorkerOptions

QUICK = Fixed(timedelta(milliseconds=1))


@pytest.fixture
def app(tmp_path):
    made = Holdfast(f"sqlite:///{tmp_path}/jobs.db")
    yield made
    made.close()


@pytest.fixture
def drain(app):
    """Work until nothing is left; gives how many jobs ended how."""

    def run(**fields):
        options = {
            "queues": tuple(app.queues),
            "processes": 2,
            "lease": timedelta(seconds=2),
            "grace": timedelta(milliseconds=300),
            "retry": QUICK,
            "until_drained": True,
        }
        return app.worker(WorkerOptions(**{**options, **fields})).run()

    return run


def ended(app, answer: holdfast.Enqueued) -> holdfast.driver.JobRecord:
    record = app.client.get(answer.id)
    assert record is not None
    assert record.state.has_ended, record
    return record
