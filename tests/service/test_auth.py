"""Tokens of a file and of an identity service: scopes, roles, spaces; and no tokens at all."""

from __future__ import annotations

import base64
import json
import time

import pytest

from holdfast import connect
from holdfast.errors import InvalidInput
from holdfast.model.secret import Secret
from holdfast.service.http.server import HttpServer
from holdfast.service.service import Service
from holdfast.settings import Settings
from holdfast.settings.serve import AuthMode, ServeSettings
from tests.service.http_service import running_service, sqlite_url
from tests.service.issuer import claims, issuer

WORKER = ["claim", "heartbeat", "result", "nack", "abandon", "subscribe"]


def tokens_file(folder) -> str:
    """Write tokens: each is its subject and -token-for-tests."""
    entries = [
        {"subject": "producer", "scopes": ["enqueue", "read", "cancel"]},
        {"subject": "worker", "scopes": WORKER},
        {"subject": "other", "scopes": WORKER},
        {"subject": "mailer", "scopes": WORKER, "event_types": ["mail.send"]},
        {"subject": "foreign", "scopes": ["enqueue", "read", "cancel", *WORKER], "space": "tenant-b"},
        {"subject": "operator", "admin": True},
        {"subject": "scraper", "scopes": ["metrics"]},
        {"subject": "driver", "scopes": ["driver"]},
    ]
    lines = []
    for entry in entries:
        lines += ["[[tokens]]", f'token = "{token(entry["subject"])}"']
        lines += [f"{name} = {json.dumps(value)}" for name, value in entry.items()]
    file = folder / "tokens.toml"
    file.write_text("\n".join(lines))
    return str(file)


def token(subject: str) -> str:
    return f"{subject}-token-for-tests"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("auth")
    with running_service(
        sqlite_url(folder),
        Settings(artifacts=str(folder / "artifacts")),
        auth=(AuthMode.STATIC,),
        tokens_file=tokens_file(folder),
        rate=None,
    ) as running:
        yield running


CALLS = {
    "POST /v1/tasks": "producer",
    "POST /v1/tasks/batch": "producer",
    "GET /v1/tasks/x": "producer",
    "GET /v1/tasks/x/result": "producer",
    "POST /v1/tasks/x/cancel": "producer",
    "POST /v1/tasks/claim": "worker",
    "POST /v1/tasks/x/heartbeat": "worker",
    "POST /v1/tasks/x/result": "worker",
    "POST /v1/tasks/result/batch": "worker",
    "POST /v1/tasks/nack/batch": "worker",
    "POST /v1/tasks/heartbeat/batch": "worker",
    "POST /v1/tasks/x/nack": "worker",
    "POST /v1/tasks/x/abandon": "worker",
    "PUT /v1/tasks/x/artifacts/a": "worker",
    "GET /v1/tasks/x/artifacts": "producer",
    "GET /v1/tasks/x/artifacts/a": "producer",
    "GET /v1/tasks": "operator",
    "POST /v1/tasks/requeue": "operator",
    "GET /v1/queues": "operator",
    "GET /v1/queues/q": "operator",
    "GET /v1/queues/q/settings": "operator",
    "PATCH /v1/queues/q/settings": "operator",
    "POST /v1/queues/q/pause": "operator",
    "POST /v1/queues/q/resume": "operator",
    "GET /v1/domains": "operator",
    "POST /v1/queues/q/domains/resume": "operator",
    "POST /v1/cleanup": "operator",
    "GET /v1/schedules": "operator",
    "GET /v1/schedules/s": "operator",
    "POST /v1/schedules/s/pause": "operator",
    "POST /v1/schedules/s/resume": "operator",
    "POST /v1/schedules/s/run": "operator",
    "GET /v1/events": "producer",
    "POST /v1/workers/subscriptions": "worker",
    "GET /v1/workers/subscriptions": "worker",
    "POST /v1/workers/subscriptions/w/heartbeat": "worker",
    "DELETE /v1/workers/subscriptions/w": "worker",
    "GET /v1/driver": "driver",
    "POST /v1/driver/calls/v": "driver",
    "POST /v1/driver/leases/v": "driver",
    "POST /v1/driver/admin/v": "operator",
    "GET /v1/autoscale": "scraper",
    "GET /metrics": "scraper",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_needs_a_token_with_its_scope(guarded, call):
    method, path = call.split()
    statuses = {}
    for subject in (None, "producer", "worker", "operator", "scraper", "driver"):
        headers = {"last-event-id": "no cursor"}  # else a stream of events would go on for an hour
        headers |= {} if subject is None else {"authorization": f"Bearer {token(subject)}"}
        answer = guarded.client.request(
            method, path, headers=headers, json=None if method == "GET" or "cancel" in path else {}
        )
        statuses[subject] = answer.status_code
    assert statuses.pop(None) == 401
    allowed = {subject for subject, status in statuses.items() if status != 403}
    assert allowed == {CALLS[call], "operator"}


def test_every_operation_is_in_this_list_or_needs_no_token(guarded):
    document = guarded.get("/openapi.json").json()
    described = {
        f"{method.upper()} {path}".format(
            task_id="x", queue="q", artifact="a", schedule="s", subscription_id="w", verb="v"
        )
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if "security" in operation
    }
    assert described == set(CALLS)
    assert {guarded.get(path).status_code for path in ("/healthz", "/readyz", "/openapi.json")} == {200}


def test_a_task_of_another_space_does_not_exist(guarded):
    task_id = guarded.post("/v1/tasks", {"command": "a"}, token=token("producer")).json()["taskId"]
    claim = guarded.post("/v1/tasks/claim", {"commands": ["a"]}, token=token("worker")).json()
    foreign, body = token("foreign"), {"leaseToken": claim["leaseToken"], "status": "COMPLETED"}
    answers = [
        guarded.get(f"/v1/tasks/{task_id}", token=foreign),
        guarded.get(f"/v1/tasks/{task_id}/result", token=foreign),
        guarded.client.post(f"/v1/tasks/{task_id}/cancel", headers={"authorization": f"Bearer {foreign}"}),
        guarded.post(f"/v1/tasks/{task_id}/result", body, token=foreign),
        guarded.post(f"/v1/tasks/{task_id}/heartbeat", {"leaseToken": claim["leaseToken"]}, token=foreign),
    ]
    unknown = guarded.get("/v1/tasks/unknown", token=foreign)
    for answer in answers:
        assert answer.status_code == 404
        hidden = {"taskId": None, "requestId": None}
        assert answer.json() | hidden == unknown.json() | hidden
    assert guarded.post("/v1/tasks/claim", {"commands": ["a"]}, token=foreign).status_code == 204
    own = guarded.post("/v1/tasks", {"command": "a"}, token=foreign).json()["taskId"]
    assert guarded.post("/v1/tasks/claim", {"commands": ["a"]}, token=foreign).json()["task"]["id"] == own


def test_an_artifact_belongs_to_its_space_and_to_the_subject_that_claimed_the_task(guarded):
    task_id = guarded.post("/v1/tasks", {"command": "file"}, token=token("producer")).json()["taskId"]
    claim = guarded.post("/v1/tasks/claim", {"commands": ["file"]}, token=token("worker")).json()
    path = f"/v1/tasks/{task_id}/artifacts/a"

    def put(subject):
        headers = {"authorization": f"Bearer {token(subject)}", "lease-token": claim["leaseToken"]}
        return guarded.client.put(path, content=b"x", headers=headers).status_code

    assert {subject: put(subject) for subject in ("foreign", "other", "producer", "worker")} == {
        "foreign": 404,
        "other": 409,
        "producer": 403,
        "worker": 201,
    }
    body = {"leaseToken": claim["leaseToken"], "status": "COMPLETED", "artifacts": ["a"]}
    assert guarded.post(f"/v1/tasks/{task_id}/result", body, token=token("worker")).status_code == 200
    reads = {subject: guarded.get(path, token=token(subject)).status_code for subject in ("foreign", "producer")}
    assert reads == {"foreign": 404, "producer": 200}


def test_a_worker_claims_only_its_event_types(guarded):
    guarded.post("/v1/tasks", {"command": "mail.delete"}, token=token("producer"))
    mailer = token("mailer")
    assert guarded.post("/v1/tasks/claim", {"commands": ["mail.delete"]}, token=mailer).json()["code"] == "forbidden"
    assert guarded.post("/v1/tasks/claim", token=mailer).status_code == 204


def test_an_action_of_an_operator_is_logged(guarded, caplog):
    with caplog.at_level("INFO", logger="holdfast.worker"):
        guarded.post("/v1/queues/audited/pause", token=token("operator"))
    [record] = [one for one in caplog.records if getattr(one, "event", "") == "http.operator"]
    assert (record.operation, record.subject, record.target) == ("pauseQueue", "operator", "audited")


def test_a_token_is_limited_to_its_rate_and_others_are_not(tmp_path):
    settings = {"auth": (AuthMode.STATIC,), "tokens_file": tokens_file(tmp_path), "rate": 0.001}
    with running_service(sqlite_url(tmp_path), **settings) as running:
        assert running.post("/v1/tasks", {"command": "a"}, token=token("producer")).status_code == 202
        limited = running.post("/v1/tasks", {"command": "a"}, token=token("producer"))
        assert (limited.status_code, limited.json()["code"]) == (429, "rate_limited")
        assert int(limited.headers["retry-after"]) > 100
        assert running.get("/v1/tasks/x", token=token("producer")).status_code == 404  # another scope
        assert running.post("/v1/tasks/claim", token=token("worker")).status_code == 200
        assert [running.get("/healthz").status_code for _ in range(2)] == [200, 200]  # without a limit
        with running_service(sqlite_url(tmp_path), **settings) as other:  # another process has a rate of its own
            assert other.post("/v1/tasks", {"command": "a"}, token=token("producer")).status_code == 202


# Without tokens ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_without_tokens_the_service_listens_on_loopback_only(host, tmp_path):
    with connect(sqlite_url(tmp_path)) as store:
        service = Service(store, Settings(), space="main")
        with pytest.raises(InvalidInput, match="loopback address, because serve_auth is none"):
            HttpServer(service, (host, 0))


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil:1"])
def test_without_tokens_the_name_of_another_host_is_refused(sqlite_service, host):
    answer = sqlite_service.client.get("/v1/queues", headers={"host": host})
    assert answer.status_code in (421, 400)


@pytest.mark.parametrize(
    "serve",
    [
        {"auth": (AuthMode.JWKS,)},
        {"auth": (AuthMode.JWKS,), "jwks_url": "https://id.test/keys", "issuer": "x"},
        {"auth": (AuthMode.IDENTITY,)},
        {"auth": (AuthMode.STATIC,)},
        {"auth": (AuthMode.STATIC,), "tokens_file": "/nonexistent"},
        {"auth": (AuthMode.NONE, AuthMode.STATIC), "tokens_file": "/nonexistent"},
    ],
)
def test_incomplete_settings_refuse_to_start(serve, tmp_path):
    with connect(sqlite_url(tmp_path)) as store, pytest.raises(InvalidInput):
        Service(store, Settings(serve=ServeSettings(**serve)), space="main")


# The identity service ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def identity():
    with issuer() as running:
        yield running


@pytest.fixture(scope="module")
def identified(identity, tmp_path_factory):
    with running_service(
        sqlite_url(tmp_path_factory.mktemp("identity")),
        auth=(AuthMode.IDENTITY,),
        introspection_url=identity.url,
        client_id="holdfast",
        client_secret=Secret("p:ss"),
        space_claim="tenant",
        scope_prefix="hf:",
    ) as running:
        yield running


def introspected(**changes):
    return claims(**{"active": True, "scope": "hf:enqueue hf:read other", "tenant": "tenant-a", **changes})


def test_an_active_token_is_asked_for_once(identity, identified):
    identity.introspect = lambda _: (200, json.dumps(introspected()).encode())
    before = len(identity.requests)
    answers = [identified.post("/v1/tasks", {"command": "a"}, token="opaque-1") for _ in range(5)]
    assert {answer.status_code for answer in answers} == {202}
    [(method, headers, body)] = identity.requests[before:]
    assert (method, body) == ("POST", "token=opaque-1&token_type_hint=access_token")
    assert headers["authorization"] == f"Basic {base64.b64encode(b'holdfast:p%3Ass').decode()}"
    assert identified.store.space("tenant-a").get(answers[0].json()["taskId"]) is not None
    assert identified.post("/v1/tasks/claim", token="opaque-1").status_code == 403


@pytest.mark.parametrize(
    "make_answer",  # when the test runs, so that no answer is refused because its token has expired meanwhile
    [
        lambda: {"active": False},
        dict,
        lambda: introspected(active="true"),
        lambda: introspected(active=1),
        lambda: introspected(exp=int(time.time()) - 1),
        lambda: introspected(exp=str(int(time.time()) + 60)),
        lambda: introspected(tenant=...),
        lambda: introspected(tenant="no name"),
        lambda: introspected(tenant=["tenant-a"]),
        lambda: introspected(sub=...),
    ],
    ids=[
        "inactive",
        "empty",
        "text for active",
        "number for active",
        "expired",
        "text for exp",
        "no tenant",
        "no name",
        "several tenants",
        "no sub",
    ],
)
def test_a_token_that_is_not_active_is_refused_and_the_answer_is_kept(identity, identified, make_answer):
    answer = make_answer()
    identity.introspect = lambda _: (200, json.dumps(answer).encode())
    before, opaque = len(identity.requests), f"refused-{abs(hash(str(answer)))}"
    for _ in range(3):
        assert identified.post("/v1/tasks", {"command": "a"}, token=opaque).status_code == 401
    assert len(identity.requests) == before + 1


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"{}"),
        (302, b""),
        (401, b"{}"),
        (200, b""),
        (200, b"[]"),
        (200, b'"active"'),
        (200, b'{"active":true}' + b" " * (300 << 10)),
    ],
)
def test_an_identity_service_that_fails_lets_nobody_in(identity, identified, status, body):
    identity.introspect = lambda _: (status, body)
    answer = identified.post("/v1/tasks", {"command": "a"}, token=f"failing-{status}-{len(body)}")
    assert (answer.status_code, answer.json()["code"]) == (503, "auth_unavailable")
    assert "retry-after" in answer.headers


def test_an_identity_service_that_is_away_lets_nobody_in(tmp_path):
    settings = {"auth": (AuthMode.IDENTITY,), "introspection_url": "http://127.0.0.1:1/introspect"}
    with running_service(sqlite_url(tmp_path), **settings) as running:
        assert running.post("/v1/tasks", {"command": "a"}, token="opaque").json()["code"] == "auth_unavailable"
