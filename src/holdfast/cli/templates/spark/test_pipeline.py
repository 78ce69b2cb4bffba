"""The handler alone, and the pipeline on local Spark. Run them with: pytest"""

import os

import pytest
from holdfast import Unrecoverable
from holdfast.spark import session

from jobs import Order, price
from pipeline import enqueue, work


@pytest.fixture(autouse=True, scope="session")
def store_of_the_tests(tmp_path_factory):
    os.environ["HOLDFAST_URL"] = f"sqlite:///{tmp_path_factory.mktemp('store')}/jobs.db"


def test_the_handler_alone(run_job):
    assert run_job(price, Order(id=1, quantity=3)) == 3750
    with pytest.raises(Unrecoverable, match="without items"):
        run_job(price, Order(id=2, quantity=0))


def test_every_row_is_priced_or_refused():
    spark = session()
    enqueue(spark.sql("SELECT id, CAST(id % 2 AS int) AS quantity FROM range(10)"))
    endings = {row["ending"]: row["count"] for row in work(spark).groupBy("ending").count().collect()}
    assert endings == {"acked": 5, "dead": 5}
