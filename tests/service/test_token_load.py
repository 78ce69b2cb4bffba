"""Tokens that nobody knows, and issuers that fail: they cost those who are known nothing, and somebody is told."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Iterator

import pytest

from holdfast.log.events import WORKER_LOGGER
from holdfast.service.auth.issuer_request import MAX_UNCHECKED
from holdfast.service.timing import ServiceTiming
from holdfast.settings.serve import AuthMode
from holdfast.worker.timing import MaintenanceTiming
from tests.service.http_service import RunningService, in_thread, running_service, sqlite_url
from tests.service.issuer import AUDIENCE, ISSUER, Issuer, claims, issuer, sign
from tests.waiting import wait_until

KNOWN = "known-token"
SCOPES = "enqueue read claim heartbeat result"


@pytest.fixture
def identity() -> Iterator[Issuer]:
    with issuer() as running:
        yield running


def answer_known(token: str) -> tuple[int, bytes]:
    """Answer an introspection: one token is active."""
    if token != KNOWN:
        return 200, b'{"active":false}'
    return 200, json.dumps(claims(active=True, scope=SCOPES, eventTypes=["a"])).encode()


@contextlib.contextmanager
def identified(folder, identity: Issuer, **options) -> Iterator[RunningService]:
    settings = {"auth": (AuthMode.IDENTITY,), "introspection_url": identity.url, **options}
    with running_service(sqlite_url(folder), **settings) as running:
        yield running


def test_unknown_tokens_that_wait_keep_no_known_worker_away(tmp_path, identity):
    may_answer = threading.Event()

    def introspect(token: str) -> tuple[int, bytes]:
        if token != KNOWN:
            may_answer.wait(60)
        return answer_known(token)

    identity.introspect = introspect
    quick = ServiceTiming(maintenance_seconds=0.02, maintenance=MaintenanceTiming(reap_seconds=0.02, step_seconds=0.02))
    with identified(tmp_path, identity, max_requests=6, timing=quick) as running:
        first, second = [running.post("/v1/tasks", {"command": "a"}, token=KNOWN).json()["taskId"] for _ in range(2)]
        claim = running.post("/v1/tasks/claim", {"commands": ["a"], "leaseSeconds": 600}, token=KNOWN).json()
        expiring = running.post("/v1/tasks/claim", {"commands": ["a"], "leaseSeconds": 1}, token=KNOWN).json()
        assert {claim["task"]["id"], expiring["task"]["id"]} == {first, second}
        unknown = [
            in_thread(lambda number=number: running.get("/v1/tasks/x", token=f"random-{number}"))
            for number in range(18)
        ]
        try:
            wait_until(lambda: running.service.authenticator.unchecked == len(unknown))
            body = {"leaseToken": claim["leaseToken"]}
            assert running.post("/v1/tasks", {"command": "a"}, token=KNOWN).status_code == 202
            assert running.post(f"/v1/tasks/{claim['task']['id']}/heartbeat", body, token=KNOWN).status_code == 200
            # Maintenance has threads of its own: it ends the lease that has expired.
            path = f"/v1/tasks/{expiring['task']['id']}"
            wait_until(lambda: running.get(path, token=KNOWN).json()["status"] == "PENDING")
            ended = running.post(f"/v1/tasks/{claim['task']['id']}/result", body | {"status": "COMPLETED"}, token=KNOWN)
            assert ended.status_code == 200
        finally:
            may_answer.set()
        assert {request().status_code for request in unknown} <= {401, 503}  # 503 if the issuer took too long


def test_refused_tokens_and_failing_issuers_are_logged_once_and_counted(tmp_path, identity, caplog):
    identity.introspect = answer_known
    with identified(tmp_path, identity) as running, caplog.at_level(logging.WARNING, WORKER_LOGGER):
        for number in range(3):
            assert running.get("/v1/tasks/x", token=f"random-{number}").status_code == 401
            assert running.get("/v1/tasks/x").status_code == 401
        identity.introspect = lambda _: (500, b"{}")
        for number in range(3):
            assert running.get("/v1/tasks/x", token=f"other-{number}").status_code == 503
        metrics = running.service.metrics.exposition("")
    [inactive, missing] = [record for record in caplog.records if record.event == "http.token_refused"]
    assert (inactive.reason, missing.reason) == (
        "identity: the token is not active",
        "wanted one header Authorization: Bearer TOKEN",
    )
    [failed] = [record for record in caplog.records if record.event == "http.issuer_failed"]
    assert (failed.reason, failed.failures) == ("status 500", 1)
    for outcome in ("refused", "missing", "unavailable"):
        assert b'holdfast_http_token_failures_total{outcome="%b"} 3.0' % outcome.encode() in metrics[0]


def test_a_service_whose_issuer_fails_is_not_ready_until_it_answers_again(tmp_path, identity):
    identity.introspect = lambda _: (500, b"{}")
    with identified(tmp_path, identity, timing=ServiceTiming(issuer_check_seconds=0.0)) as running:
        down = running.get("/readyz")
        assert (down.status_code, down.json()["reasons"]) == (503, ["tokens cannot be checked: identity"])
        identity.introspect = answer_known
        assert running.get("/readyz").json() == {"ok": True, "reasons": []}
        asked = len(identity.requests)
        running.get("/readyz")
        assert len(identity.requests) == asked


def test_a_service_with_another_way_to_check_tokens_stays_ready_and_tells(tmp_path, identity):
    settings = {"auth": (AuthMode.JWKS, AuthMode.IDENTITY), "issuer": ISSUER, "audience": AUDIENCE}
    with identified(tmp_path, identity, **settings, jwks_url="http://127.0.0.1:1/keys") as running:
        answer = running.get("/readyz")
        assert (answer.status_code, answer.json()["reasons"]) == (200, ["tokens cannot be checked: jwks"])


def test_a_token_that_was_issued_in_the_future_is_refused(tmp_path, identity):
    settings = {"auth": (AuthMode.JWKS,), "issuer": ISSUER, "audience": AUDIENCE, "jwks_url": identity.url}
    with running_service(sqlite_url(tmp_path), **settings) as running:
        statuses = [
            running.post("/v1/tasks/claim", token=sign(claims(iat=int(time.time()) + ahead))).status_code
            for ahead in (10, 600)
        ]
        assert statuses == [204, 401]


def test_only_so_many_requests_wait_for_unknown_tokens(tmp_path, identity):
    may_answer = threading.Event()

    def introspect(token: str) -> tuple[int, bytes]:
        may_answer.wait(60)
        return answer_known(token)

    identity.introspect = introspect
    with identified(tmp_path, identity) as running:
        waiting = [
            in_thread(lambda number=number: running.get("/v1/tasks/x", token=f"random-{number}"))
            for number in range(MAX_UNCHECKED)
        ]
        try:
            wait_until(lambda: running.service.authenticator.unchecked == MAX_UNCHECKED)
            refused = running.get("/v1/tasks/x", token="one more")
            assert (refused.status_code, refused.json()["code"]) == (503, "auth_unavailable")
            assert running.get("/healthz").status_code == 200
        finally:
            may_answer.set()
        assert {request().status_code for request in waiting} <= {401, 503}
