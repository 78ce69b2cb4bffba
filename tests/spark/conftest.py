"""Two Spark sessions for the tests of this folder that need one: pytest-xdist runs each session in one process.

The audit and the history have the second session, with the examples and the pages of the documentation: a first audit
costs as much as two session starts. The tests that share no session are a third group, so that few Sparks run at the
same time: they start programs of their own, such as a cluster, or no Spark at all. The three groups take equally long.
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


IN_SECOND_SESSION = {
    "test_audit.py",
    "test_examples.py",
    "test_history.py",
    "test_history_damage.py",
    "test_report.py",
    "test_store_audit.py",
}


def group_of(item):
    if "spark" not in item.fixturenames:
        return "spark-programs"
    return "spark-history" if item.path.name in IN_SECOND_SESSION else "spark"


@pytest.hookimpl(tryfirst=True)  # before the hook of xdist, which reads the groups
def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/spark/" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group(group_of(item)))


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
