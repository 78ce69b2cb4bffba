"""One Spark session for the tests of this folder that need one: pytest-xdist runs them in one process.

The others start programs of their own, or no Spark at all. They are a second group, so that both processes of a run are
busy to its end.
"""

from datetime import timedelta

import pytest

from holdfast.app import Holdfast
from holdfast.model.retry import Fixed
from holdfast.spark import session
from holdfast.worker.options import WorkerOptions

OPTIONS = WorkerOptions(
    lease=timedelta(seconds=3), grace=timedelta(milliseconds=500), retry=Fixed(timedelta(milliseconds=10))
)
SESSION_FIXTURES = frozenset({"spark", "cluster"})


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/spark/" in item.nodeid:
            has_session = not SESSION_FIXTURES.isdisjoint(item.fixturenames)
            item.add_marker(pytest.mark.xdist_group("spark" if has_session else "spark-programs"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    local = session("local[2,4]", spark_sql_warehouse_dir=tmp_path_factory.mktemp("warehouse"))
    yield local
    local.stop()


@pytest.fixture
def app(tmp_path):
    opened = Holdfast(f"sqlite:///{tmp_path}/jobs.db")
    yield opened
    opened.close()


@pytest.fixture(params=["sqlite", "postgres"])
def any_app(request, tmp_path):
    """An app on each store that Spark tests use."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/jobs.db"
    else:
        url = request.getfixturevalue("postgres_database")()
    opened = Holdfast(url)
    yield opened
    opened.close()
