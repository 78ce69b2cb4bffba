from pathlib import Path

import pytest

import holdfast
from holdfast.clock import SECOND
from holdfast.model.job import JobRecord

NOW = 1_800_000_000 * SECOND


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path):
    store = holdfast.connect(f"sqlite:///{path}", caller_clock=True)
    yield store
    store.close()


@pytest.fixture
def job():
    """Return a function that creates a record with these fields."""
    counter = iter(range(10**6))

    def make(**fields) -> JobRecord:
        defaults = {"id": f"job-{next(counter):06}", "type": "t", "queue": "q", "payload": b"{}", "created_at": NOW}
        return JobRecord(**{**defaults, **fields})

    return make
