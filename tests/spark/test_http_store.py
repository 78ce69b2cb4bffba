"""Slots over HTTP: the executors have a token for one space, and nothing by which they could reach the store."""

import pytest

from holdfast.app import Holdfast
from holdfast.drivers.capabilities import Feature
from holdfast.settings.serve import AuthMode
from holdfast.spark import run_queue
from tests.service.http_service import running_service, sqlite_url
from tests.spark.conftest import OPTIONS

TOKENS = """
[[tokens]]
token = "executor-token-for-tests"
subject = "executor"
scopes = ["driver"]
space = "acme"
"""


@pytest.fixture
def http_app(tmp_path):
    (tmp_path / "tokens.toml").write_text(TOKENS)
    (tmp_path / "token").write_text("executor-token-for-tests")
    with running_service(
        sqlite_url(tmp_path), auth=(AuthMode.STATIC,), tokens_file=str(tmp_path / "tokens.toml")
    ) as running:
        app = Holdfast(f"{running.url}?token_file={tmp_path}/token")
        yield app
        app.close()


def test_slots_run_jobs_over_http(spark, http_app):
    double = http_app.handler("double")(lambda number: 2 * number)
    answers = double.enqueue_many(range(60))
    rows = run_queue(http_app, spark=spark, slots=2, options=OPTIONS).collect()
    assert {row["ending"] for row in rows} == {"acked"}
    assert sorted(row["job_id"] for row in rows) == sorted(answer.id for answer in answers)
    assert [http_app.client.result(answer.id) for answer in answers[:3]] == [0, 2, 4]
    assert http_app.driver.space_name == "acme"
    assert not http_app.driver.capabilities.has(Feature.MACHINES), "loopback"
