"""Behind a proxy that gives every transaction another session, every law holds: nothing lives in a session."""

import pytest

import holdfast
from holdfast.drivers.postgres import listen
from holdfast.testing.drivers.conformance import CaseStatus, cases, run_cases
from holdfast.testing.drivers.harness import UrlHarness
from tests.postgres.pooler import Pooler


@pytest.fixture
def pooled(postgres_database):
    url = postgres_database()
    head, port = url.rsplit("/", 1)[0].rsplit(":", 1)
    pooler = Pooler(int(port))
    yield f"{head}:{pooler.port}/{url.rsplit('/', 1)[1]}", url, pooler
    pooler.close()


def test_every_conformance_case_passes_behind_a_transaction_pooler(pooled):
    through, _, pooler = pooled
    harness = UrlHarness(through)
    failures = [result for result in run_cases(harness, cases()) if result.status is CaseStatus.FAILED]
    failed = [f"{failure.case.topic}: {failure.case.name}: {failure.reason}" for failure in failures]
    harness.close()
    assert failed == []
    assert pooler.transactions > 3000


def test_a_listener_that_nobody_hears_is_given_up(pooled, monkeypatch):
    through, _, _ = pooled
    monkeypatch.setattr(listen, "ECHO_WITHIN", 0.05)
    store = holdfast.connect(through)
    store.wait(["q"], timeout=0.5)
    assert not store._listener.is_alive
    store.close()


def test_a_direct_connection_for_the_listener_beside_the_pooler(pooled):
    from urllib.parse import quote

    through, direct, _ = pooled
    store = holdfast.connect(f"{through}?listen={quote(direct, safe='')}")
    for _ in range(100):
        store.wait(["q"], timeout=0.1)
        if store._listener.is_alive:
            break
    assert store._listener.is_alive
    store.close()
