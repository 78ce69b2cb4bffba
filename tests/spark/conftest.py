"""One Spark session for the tests of this folder that need one: pytest-xdist runs them in one process.

The other tests are a second group, so that few Sparks run at the same time: they start programs of their own, or no
Spark at all. The cluster, the examples and the pages of the documentation are also there. They share a second session,
whose start and first audit take half a minute of processor time: the tests of the first session take the longest.
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

IN_SECOND_SESSION = ("test_cluster.py", "test_examples.py")


@pytest.hookimpl(tryfirst=True)  # before the hook of xdist, which reads the groups
def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/spark/" in item.nodeid:
            in_first_session = "spark" in item.fixturenames and item.path.name not in IN_SECOND_SESSION
            item.add_marker(pytest.mark.xdist_group("spark" if in_first_session else "spark-programs"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    warehouse = tmp_path_factory.mktemp("warehouse")
    local = session("local[2,4]", spark_sql_warehouse_dir=warehouse, spark_sql_shuffle_partitions=2)
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
