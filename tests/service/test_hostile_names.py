"""Injection in every name that a request has: names are refused, and texts are data."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from holdfast.drivers.requests import Cancel, Purge

HOSTILE = (
    "a\0",
    "a\nb",
    "a\r\nX-Evil: 1",
    "../../etc/passwd",
    "a/b",
    "a\\b",
    "'; DROP TABLE holdfast_jobs;--",
    '" OR ""="',
    "%s%n%x",
    "${jndi:ldap://127.0.0.1/a}",
    "{{7*7}}",
    "$(id)",
    "`id`",
    "<script>alert(1)</script>",
    "*",
    "a b",
    "\u202ea",
    "\uff41",
    "x" * 129,
    "",
)
TEXTS = [text for text in HOSTILE if text.isprintable() and text] + ["\u202ea", "ü" * 128]
CONTROLS = ("a\0", "a\nb", "a\x1b[31m", "\x7f", "ü" * 129, "")

URL = "https://example.org/"
IN_BODIES = {
    "command": ("/v1/tasks", lambda name: {"command": name}),
    "queue": ("/v1/tasks", lambda name: {"command": "a", "queue": name}),
    "commands of a claim": ("/v1/tasks/claim", lambda name: {"commands": [name]}),
    "queues of a claim": ("/v1/tasks/claim", lambda name: {"queues": ["default", name]}),
    "task of a batch": (
        "/v1/tasks/result/batch",
        lambda name: {"results": [{"taskId": name, "leaseToken": "1.a", "status": "COMPLETED"}]},
    ),
    "event types": ("/v1/workers/subscriptions", lambda name: {"callbackUrl": URL, "eventTypes": [name]}),
    "queues of a subscription": (
        "/v1/workers/subscriptions",
        lambda name: {"callbackUrl": URL, "eventTypes": ["a"], "queues": [name]},
    ),
    "paused command": ("/v1/queues/default/pause", lambda name: {"command": name}),
}
IN_QUERIES = (
    "/v1/tasks?queue=",
    "/v1/tasks?command=",
    "/v1/autoscale?queue=",
    "/v1/autoscale?command=",
    "/v1/domains?queue=",
    "/v1/events?forSeconds=0&queue=",
    "/v1/events?forSeconds=0&command=",
)
IN_PATHS = (
    "/v1/tasks/{}",
    "/v1/tasks/{}/result",
    "/v1/tasks/{}/artifacts",
    "/v1/queues/{}",
    "/v1/queues/{}/settings",
    "/v1/schedules/{}",
)


@pytest.mark.parametrize("place", IN_BODIES)
def test_a_hostile_name_in_a_body_is_refused(service, place):
    path, body = IN_BODIES[place]
    for name in HOSTILE:
        answer = service.post(path, body(name))
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request"), name
    assert service.store.counts() == []


@pytest.mark.parametrize("place", IN_QUERIES)
def test_a_hostile_name_in_a_query_is_refused(service, place):
    for name in HOSTILE:
        answer = service.client.get(place + quote(name, safe=""))
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request"), name


@pytest.mark.parametrize("place", IN_PATHS)
def test_nothing_is_found_under_a_hostile_name(service, place):
    for name in filter(None, HOSTILE):
        answer = service.client.get(place.format(quote(name, safe="").replace(".", "%2e")))
        assert answer.status_code in (400, 404), name
        assert answer.json()["code"] in ("invalid_request", "not_found")


def test_a_hostile_text_is_kept_as_it_is(service, command):
    for text in TEXTS:
        fields = {"domain": text, "idempotencyKey": text, "queue": "texts"}
        task_id = service.enqueue(command, **fields)
        [found] = service.get("/v1/tasks", domain=text, queue="texts").json()["tasks"]
        assert (found["id"], found["domain"]) == (task_id, text)
        assert service.enqueue(command, **fields) == task_id  # the key is the same
        [domain] = service.get("/v1/domains", queue="texts", domain=text).json()["domains"]
        assert domain["domain"] == text
    store = service.store
    ids = [job.id for job in store.find(limit=100)]
    assert len(ids) == len(TEXTS)
    store.do(Cancel(job_ids=ids))
    store.do(Purge(job_ids=ids))


def test_a_text_with_control_characters_is_refused(service, command):
    for text in CONTROLS:
        for field in ("domain", "idempotencyKey"):
            answer = service.post("/v1/tasks", {"command": command, field: text})
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request"), (field, text)
    assert service.store.counts() == []
