"""One Spark session for all of these tests: they run in one process of pytest-xdist."""

from datetime import timedelta

import pytest

from holdfast.app import Holdfast
from holdfast.model.retry import Fixed
from holdfast.spark import session
from holdfast.worker.options import WorkerOptions

OPTIONS = WorkerOptions(
    lease=timedelta(seconds=3), grace=timedelta(milliseconds=500), retry=Fixed(timedelta(milliseconds=10))
)


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/spark/" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark():
    made = session("local[2,4]")
    yield made
    made.stop()


@pytest.fixture
def app(tmp_path):
    made = Holdfast(f"sqlite:///{tmp_path}/jobs.db")
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgres"])
def any_app(request, tmp_path):
    """On each store that Spark can work with."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/jobs.db"
    else:
        url = request.getfixturevalue("postgres_database")()
    made = Holdfast(url)
    yield made
    made.close()
