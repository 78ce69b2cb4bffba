"""Terminated sessions and killed servers lose no accepted job, and every process recovers without help."""

import threading

import psycopg
import pytest

import holdfast
from holdfast.clock import MINUTE
from holdfast.errors import StoreUnavailable
from holdfast.model.settlement import Ack
from tests.postgres.faults import run_under_faults


@pytest.mark.parametrize(("jobs", "faults"), [(500, 4), pytest.param(2000, 15, marks=pytest.mark.long)])
def test_terminating_every_session_under_load_loses_no_job(server, jobs, faults):
    name = f"terminate_{jobs}"
    url = server.create_database(name)

    def terminate_all():
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
                [name],
            )

    run_under_faults(url, terminate_all, jobs=jobs, faults=faults, every=0.15)


@pytest.mark.parametrize(("jobs", "faults"), [(500, 1), pytest.param(2000, 2, marks=pytest.mark.long)])
def test_killing_and_restarting_the_server_under_load_loses_no_job(server, jobs, faults):
    url = server.create_database(f"killed_{jobs}")

    def crash():
        server.kill()
        server.start()

    run_under_faults(url, crash, jobs=jobs, faults=faults, every=1.0)


def test_a_settlement_is_repeated_until_the_server_is_back(server, job):
    store = holdfast.connect(server.create_database("away"))
    store.enqueue([job()])
    [reservation] = store.reserve(["q"], limit=1, lease_for=MINUTE)
    server.kill()
    restart = threading.Timer(0.3, server.start)
    restart.start()
    try:
        assert store.settle([Ack(reservation.lease)]) == [None]
    finally:
        restart.join()
    store.close()


def test_an_unreachable_server_is_reported_when_patience_has_passed(server, job):
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
