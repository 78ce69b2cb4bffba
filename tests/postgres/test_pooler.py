"""Every law holds behind a proxy that runs each transaction in another session: the driver keeps no session state."""

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


def test_a_listener_without_echo_is_not_relied_on(pooled, monkeypatch):
    through, _, _ = pooled
    monkeypatch.setattr(listen, "ECHO_TIMEOUT_SECONDS", 0.05)
    store = holdfast.connect(through)
    store.wait(["q"], timeout=0.5)
    assert not store._listener.is_alive
    store.close()


def test_the_listener_can_use_a_direct_connection_beside_the_pooler(pooled):
    from urllib.parse import quote

    through, direct, _ = pooled
    store = holdfast.connect(f"{through}?listen={quote(direct, safe='')}")
    for _ in range(100):
        store.wait(["q"], timeout=0.1)
        if store._listener.is_alive:
            break
    assert store._listener.is_alive
    store.close()
