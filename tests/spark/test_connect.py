"""Spark Connect: a real server, and a client without a JVM and a SparkContext."""

import json

import pytest

from holdfast.testing.servers.spark_connect import ConnectServer
from tests.spark.clusters import PROGRAMS, Program

ROOT = PROGRAMS.parents[2]
pytestmark = pytest.mark.timeout(1200)  # the first test starts the server and runs the client


@pytest.fixture(scope="module")
def results(postgres_database, tmp_path_factory):
    """The output of the client."""
    folder = tmp_path_factory.mktemp("connect")
    with (
        ConnectServer() as server,
        Program(PROGRAMS / "client.py", server.url, postgres_database(), folder, folder=ROOT) as client,
    ):
        return json.loads(client.output())


def test_a_connect_session_is_used_and_its_server_is_known_to_be_local(results):
    assert (results["again"], results["one_machine"]) == (True, True)


def test_rows_become_jobs_once_over_connect(results):
    assert results["saved"] == 20


def test_a_queue_is_drained_over_connect(results):
    assert results["drained"] == {"acked": 20}


def test_a_frame_goes_through_a_handler_over_connect(results):
    assert results["rows"] == [9, ["odd"]]


def test_an_interrupt_over_connect_releases_the_jobs_of_slots(results):
    assert results["stopped"] == ["ready", 0]


def test_the_ledger_streams_into_jobs_over_connect(results):
    assert results["streamed"] == 20


def test_a_store_is_audited_over_connect_and_a_history_is_refused(results):
    assert results["audit"] is True
    assert "its clients have no filesystem" in results["history"]
