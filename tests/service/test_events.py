"""``GET /v1/events``: the ledger as server-sent events."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.service import event_stream
from holdfast.service.timing import ServiceTiming
from holdfast.settings.serve import AuthMode
from tests.service.http_service import running_service, sqlite_url

TOKENS = """
[[tokens]]
token = "token-of-tenant-one"
subject = "one"
space = "one"
admin = true

[[tokens]]
token = "token-of-tenant-two"
subject = "two"
space = "two"
scopes = ["read"]

[[tokens]]
token = "token-of-a-worker"
subject = "worker"
space = "two"
scopes = ["claim"]
"""


def events(answer) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream; comments are left out."""
    one: dict[str, Any] = {}
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if line == "" and "event" in one:
            yield {**one, "data": json.loads(one["data"])}
        one = {} if line == "" else {**one, name: value}


def read(service, count=None, *, headers=None, token=None, **query):
    """Return the next events; without a count, those until the end of the stream."""
    headers = dict(headers or {}) | ({} if token is None else {"authorization": f"Bearer {token}"})
    with service.client.stream("GET", "/v1/events", params=query, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = []
        for one in events(answer):
            found.append(one)
            if len(found) == count:
                break
        return found


def end(service, command, status="COMPLETED"):
    task_id = service.enqueue(command)
    service.settle("result", service.claim(command), status=status, error="broken")
    return task_id


def test_a_stream_has_what_happens_from_now_on(service, command):
    end(service, command)
    with service.client.stream("GET", "/v1/events", params={"command": command}) as answer:
        stream = events(answer)
        task_id = end(service, command, status="FAILED")
        one = next(stream)
    assert one["event"] == "failed"
    data = one["data"]
    assert [data[name] for name in ("taskId", "command", "queue", "status", "attempt", "worker", "error")] == [
        task_id,
        command,
        "default",
        "FAILED",
        1,
        "anonymous",
        "broken",
    ]


def test_a_client_that_reconnects_goes_on_after_the_last_event(service, command):
    tasks = [end(service, command) for _ in range(3)]
    first = read(service, 1, after="oldest", command=command, forSeconds=30)
    assert first[0]["data"]["taskId"] == tasks[0]
    rest = read(service, headers={"last-event-id": first[0]["id"]}, after="oldest", command=command, forSeconds=0)
    assert [one["data"]["taskId"] for one in rest] == tasks[1:]
    assert read(service, after=rest[-1]["id"], queue="other", forSeconds=0) == []


def test_a_bad_cursor_is_refused_before_the_stream_begins(service):
    for query in ({"after": "no cursor"}, {"after": ""}, {"forSeconds": -1}, {"x": 1}):
        answer = service.get("/v1/events", **query)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


def test_a_head_request_and_too_many_streams_are_answered_at_once(sqlite_service, monkeypatch):
    assert sqlite_service.client.head("/v1/events").status_code == 200
    monkeypatch.setattr(event_stream, "MAX_STREAMS", 0)
    answer = sqlite_service.get("/v1/events")
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "overloaded", "1")


def test_a_silent_stream_has_heartbeats(tmp_path, command):
    with running_service(sqlite_url(tmp_path), timing=ServiceTiming(heartbeat_seconds=0.0)) as service:
        answer = service.get("/v1/events", command=command, forSeconds=0)
    assert answer.text.startswith("retry: 2000\n\n: heartbeat\n\n")


def test_a_tenant_sees_its_own_events(tmp_path):
    (tmp_path / "tokens.toml").write_text(TOKENS)
    auth = {"auth": (AuthMode.STATIC,), "tokens_file": str(tmp_path / "tokens.toml")}
    with running_service(sqlite_url(tmp_path), **auth) as service:
        one, two, worker = (f"token-of-{name}" for name in ("tenant-one", "tenant-two", "a-worker"))
        task_id = service.post("/v1/tasks", {"command": "a"}, token=one).json()["taskId"]
        service.client.post(f"/v1/tasks/{task_id}/cancel", headers={"authorization": f"Bearer {one}"})
        [event] = read(service, token=one, after="oldest", forSeconds=0)
        assert (event["event"], event["data"]["taskId"]) == ("cancelled", task_id)
        assert read(service, token=two, after="oldest", forSeconds=0) == []
        assert service.get("/v1/events", token=worker).status_code == 403


@pytest.fixture
def tenants(tmp_path):
    (tmp_path / "tokens.toml").write_text(TOKENS)
    auth = {"auth": (AuthMode.STATIC,), "tokens_file": str(tmp_path / "tokens.toml")}
    with running_service(sqlite_url(tmp_path), timing=ServiceTiming(token_check_seconds=0.0), **auth) as service:
        yield service


def open_stream(service, token):
    """Return the answer and its lines; the stream goes on until the answer is closed."""
    headers = {"authorization": f"Bearer {token}"}
    answer = service.client.send(service.client.build_request("GET", "/v1/events", headers=headers), stream=True)
    lines = answer.iter_lines()
    next(lines)
    return answer, lines


def test_the_streams_of_one_tenant_leave_some_to_the_others(tenants, monkeypatch):
    monkeypatch.setattr(event_stream, "MAX_STREAMS", 4)
    with contextlib.ExitStack() as stack:

        def status(token):
            answer, lines = open_stream(tenants, token)
            stack.callback(lines.close)
            stack.callback(answer.close)
            return answer.status_code

        assert [status("token-of-tenant-one") for _ in range(3)] == [200, 200, 503]
        assert status("token-of-tenant-two") == 200


def test_a_stream_ends_with_its_token(tenants):
    _, lines = open_stream(tenants, "token-of-tenant-two")
    [provider] = tenants.service.authenticator._providers.values()
    provider._principals.clear()
    assert [line for line in lines if line] == []  # and no more
    assert tenants.get("/v1/events", token="token-of-tenant-two").status_code == 401


def test_a_stream_ends_when_the_service_stops(tmp_path):
    with running_service(sqlite_url(tmp_path)) as service:
        answer = service.client.send(service.client.build_request("GET", "/v1/events"), stream=True)
        lines = answer.iter_lines()
        assert next(lines) == "retry: 2000"
    answer.close()


@pytest.mark.parametrize("path", ["/events", "/v1/events"])
def test_the_bare_path_is_an_alias(sqlite_service, path):
    assert sqlite_service.get(path, forSeconds=0).status_code == 200
