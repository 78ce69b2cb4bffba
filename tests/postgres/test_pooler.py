"""A proxy that runs each transaction in another session: the driver keeps no session state.

``test_rights`` runs the conformance suite behind this proxy.
"""

import pytest

import holdfast
from tests.postgres.conftest import open_store
from tests.postgres.pooler import pool


@pytest.fixture
def pooled(url):
    """The URL behind a pooler, and the direct one."""
    with pool(url) as (through, _):
        yield through, url


def test_a_listener_without_echo_is_not_relied_on(pooled):
    through, _ = pooled
    store = open_store(through, echo_timeout_seconds=0.05)
    store.wait(["q"], timeout=0.5)
    assert not store.engine._listener.is_alive
    store.close()


def test_the_listener_can_use_a_direct_connection_beside_the_pooler(pooled):
    from urllib.parse import quote

    through, direct = pooled
    store = holdfast.connect(f"{through}?listen={quote(direct, safe='')}")
    for _ in range(100):
        store.wait(["q"], timeout=0.1)
        if store.engine._listener.is_alive:
            break
    assert store.engine._listener.is_alive
    store.close()


PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%enqueue_one%'"


def test_single_enqueues_are_prepared_in_a_session_that_the_connection_keeps(url, job):
    with holdfast.connect(url) as store:
        for _ in range(3):
            store.enqueue([job()])
        [(prepared,)] = store.engine._database.run(
            lambda connection: connection.execute(PREPARED).fetchall(), is_repeatable=True
        )
        assert prepared == 1


def test_nothing_is_prepared_behind_a_pooler(pooled, job):
    through, _ = pooled
    with holdfast.connect(through) as store:
        for _ in range(20):
            assert not store.enqueue([job()])[0].existed
        for _ in range(20):  # of the sessions that the pooler has
            [(prepared,)] = store.engine._database.run(
                lambda connection: connection.execute(PREPARED).fetchall(), is_repeatable=True
            )
            assert prepared == 0
