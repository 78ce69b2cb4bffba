"""Sessions ended, servers killed: nothing accepted is lost, and everybody goes on by themselves."""

import threading

import psycopg
import pytest

import holdfast
from holdfast.clock import MINUTE
from holdfast.errors import StoreUnavailable
from holdfast.model.settlement import Ack
from tests.postgres.faults import under_faults


def test_ending_every_session_under_load_loses_nothing(server):
    url = server.create_database("terminate")

    def end_all():
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = 'terminate' AND pid <> pg_backend_pid()"
            )

    under_faults(url, end_all, jobs=2000, faults=15, every=0.15)


def test_a_server_killed_and_started_again_under_load_loses_nothing(server):
    url = server.create_database("killed")

    def crash():
        server.kill()
        server.start()

    under_faults(url, crash, jobs=2000, faults=2, every=1.0)


def test_a_settlement_waits_for_a_server_that_comes_back(server, job):
    store = holdfast.connect(server.create_database("away"))
    store.enqueue([job()])
    [held] = store.reserve(["q"], limit=1, lease_for=MINUTE)
    server.kill()
    back = threading.Timer(0.3, server.start)
    back.start()
    try:
        assert store.settle([Ack(held.lease)]) == [None]
    finally:
        back.join()
    store.close()


def test_a_server_that_stays_away_is_reported_in_time(server, job):
    store = holdfast.connect(f"{server.create_database('gone')}?patience=0.2")
    store.enqueue([job()])
    server.stop()
    try:
        for call in (
            lambda: store.enqueue([job()]),
            lambda: store.reserve(["q"], limit=1, lease_for=MINUTE),
            lambda: store.get("j"),
        ):
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                call()
    finally:
        server.start()
    assert len(store.reserve(["q"], limit=9, lease_for=MINUTE)) >= 1
    store.close()
