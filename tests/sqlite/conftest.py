from pathlib import Path

import pytest

import holdfast
from holdfast.clock import SECOND
from holdfast.drivers.sqlite import SqliteDriver
from holdfast.model.job import JobRecord

NOW = 1_800_000_000 * SECOND


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path):
    made = holdfast.connect(f"sqlite:///{path}", caller_clock=True)
    assert isinstance(made, SqliteDriver)
    yield made
    made.close()


@pytest.fixture
def job():
    """Makes records that differ only in what a test says."""
    counter = iter(range(10**6))

    def make(**fields) -> JobRecord:
        plain = {"id": f"job-{next(counter):06}", "type": "t", "queue": "q", "payload": b"{}", "created_at": NOW}
        return JobRecord(**{**plain, **fields})

    return make
