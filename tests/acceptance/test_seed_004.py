"""Seed 004: tasks over HTTP, from the enqueue of a producer to the callback with the result.

A case cites the line of the seed that it proves, and runs on the service over each store; KVRocks (9) is not built.
Where the seed has a trap, the case shows what Holdfast does instead: one transaction (26, 27, 32-36), the lease token
beside the subject (33), a final FAILED (32), repair also while nobody claims (47).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.driver import JobFilter, State
from holdfast.drivers.requests import Inspect
from holdfast.model.secret import Secret
from holdfast.service.timing import ServiceTiming
from holdfast.settings import Settings
from holdfast.settings.serve import AuthMode
from holdfast.webhooks.delivery import QUEUE as DELIVERIES
from holdfast.worker.timing import MaintenanceTiming
from tests.service.artifact_calls import CONTENT, DIGEST, download, names_of, upload
from tests.service.http_service import RunningService, in_thread, running_service, sqlite_url
from tests.service.issuer import AUDIENCE, ISSUER, OTHER_EC_KEY, claims, issuer, sign
from tests.waiting import wait_until
from tests.webhook_receiver import SECRET, Receiver, receiving

PRODUCER = "an opaque token"
QUICK = ServiceTiming(maintenance_seconds=0.02, maintenance=MaintenanceTiming(reap_seconds=0.0, step_seconds=0.02))


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgres"])
def url(request, tmp_path_factory) -> str:
    match request.param:
        case "memory":
            return "memory://"
        case "sqlite":
            return sqlite_url(tmp_path_factory.mktemp("store"))
        case _:
            return request.getfixturevalue("postgres_database")()


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving(lambda one: 503 if one.path == "/down" else 204) as running:
        yield running


@pytest.fixture(scope="module")
def service(url, receiver, tmp_path_factory) -> Iterator[RunningService]:
    """A service without tokens, which may call the receiver."""
    settings = Settings(webhooks=receiver.settings, artifacts=str(tmp_path_factory.mktemp("artifacts")))
    with running_service(url, settings) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(url) -> Iterator[RunningService]:
    """A service with tokens, whose maintenance rests only for moments."""

    def introspect(token: str) -> tuple[int, bytes]:
        answer = claims(active=True, sub="producer", scope="enqueue read") if token == PRODUCER else {"active": False}
        return 200, json.dumps(answer).encode()

    with issuer() as issuing:
        issuing.introspect = introspect
        with running_service(
            url,
            timing=QUICK,
            auth=(AuthMode.JWKS, AuthMode.IDENTITY),
            jwks_url=issuing.url,
            introspection_url=issuing.url,
            client_id="holdfast",
            client_secret=Secret("secret"),
            issuer=ISSUER,
            audience=AUDIENCE,
        ) as running:
            yield running


@pytest.fixture
def command() -> str:
    """A command of this case: cases share a store and a receiver."""
    return f"test.{uuid.uuid4().hex}"


def worker_token(**changes: Any) -> str:
    return sign(claims(**changes))


def status(service: RunningService, task_id: str) -> str:
    return str(service.get(f"/v1/tasks/{task_id}").json()["status"])


def lose_lease(service: RunningService, command: str) -> None:
    """Claim a task of this command as a worker that dies at once."""
    assert len(service.store.reserve(["default"], types=[command], limit=1, lease_for=1, worker="gone")) == 1


# Tokens -------------------------------------------------------------------------------------------------------


def test_a_producer_is_known_by_the_identity_service_and_a_worker_by_a_published_key(guarded, command):
    """6, 24: producer token via Identity, worker token via JWKS."""
    task = {"command": command}
    task_id = guarded.post("/v1/tasks", task, token=PRODUCER).json()["taskId"]
    worker = worker_token(eventTypes=[command])
    assert guarded.post("/v1/tasks/claim", task, token=PRODUCER).status_code == 403
    assert guarded.post("/v1/tasks", task, token=worker).status_code == 403
    for token in (None, "unknown", sign(claims(), OTHER_EC_KEY)):
        assert guarded.post("/v1/tasks/claim", token=token).status_code == 401
    claim = guarded.post("/v1/tasks/claim", {"commands": [command]}, token=worker).json()
    assert claim["task"]["id"] == task_id


def test_a_worker_claims_the_event_types_of_its_token(guarded, command):
    """24: filters event types by token claims."""
    guarded.post("/v1/tasks", {"command": command}, token=PRODUCER)
    other = worker_token(eventTypes=["other"])
    assert guarded.post("/v1/tasks/claim", {"commands": [command]}, token=other).json()["code"] == "forbidden"
    assert guarded.post("/v1/tasks/claim", token=other).status_code == 204


def test_a_task_is_ended_by_the_subject_that_claimed_it_with_its_lease_token(guarded, command):
    """33, 41: verifies task ownership. By the subject and by the lease: an old attempt cannot complete a new one."""
    task_id = guarded.post("/v1/tasks", {"command": command}, token=PRODUCER).json()["taskId"]
    owner, other = (worker_token(sub=name, eventTypes=["*"]) for name in ("owner", "other"))
    claim = guarded.post("/v1/tasks/claim", {"commands": [command]}, token=owner).json()
    body = {"leaseToken": claim["leaseToken"], "status": "COMPLETED"}
    for token, lease_token in ((other, claim["leaseToken"]), (owner, "1.0")):
        refused = guarded.post(f"/v1/tasks/{task_id}/result", {**body, "leaseToken": lease_token}, token=token)
        assert (refused.status_code, refused.json()["code"]) == (409, "lease_mismatch")
    assert guarded.post(f"/v1/tasks/{task_id}/result", body, token=owner).status_code == 200


# Enqueue ------------------------------------------------------------------------------------------------------


def test_a_request_that_is_not_valid_json_of_a_task_stores_nothing(service, command):
    """5, 17: JSON binding, validates fields."""
    for body in ({}, {"command": ""}, {"command": command, "priority": 10}, {"command": command, "unknown": 1}):
        answer = service.post("/v1/tasks", body)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    broken = service.client.post("/v1/tasks", content=b'{"command":', headers={"content-type": "application/json"})
    assert broken.status_code == 400
    assert service.get("/v1/tasks", command=command).json()["tasks"] == []


@pytest.mark.parametrize("payload", [None, 0, 1.5, "ü\u0000", [], {"a": [1, {"b": None}]}, 2**63, True])
def test_a_payload_comes_out_as_it_went_in(service, command, payload):
    """16-17: command, payload; normalized to a JSON string."""
    task_id = service.enqueue(command, payload=payload)
    assert service.get(f"/v1/tasks/{task_id}").json()["payload"] == payload
    assert service.claim(command)["task"]["payload"] == payload


def test_tasks_are_claimed_in_the_order_of_priority(service, command):
    """16: priority."""
    ids = [service.enqueue(command, priority=priority) for priority in (1, 9, 5)]
    assert [service.claim(command)["task"]["id"] for _ in ids] == [ids[1], ids[2], ids[0]]


def test_an_accepted_task_can_be_read_and_claimed_at_once(service, command):
    """18-19: the record, the pending list and the retention index, in one transaction."""
    answer = service.post("/v1/tasks", {"command": command})
    assert answer.status_code == 202
    task = service.get(answer.headers["location"]).json()
    assert (task["id"], task["command"], task["status"]) == (answer.json()["taskId"], command, "PENDING")
    assert [one["id"] for one in service.get("/v1/tasks", command=command).json()["tasks"]] == [task["id"]]
    assert service.claim(command)["task"]["id"] == task["id"]


# Claim --------------------------------------------------------------------------------------------------------


def test_a_claim_names_commands_and_the_length_of_its_lease(service, command):
    """23, 27-28: commands, leaseSeconds; status IN_PROGRESS; returns the task record."""
    service.enqueue("another")
    task_id = service.enqueue(command)
    claim = service.claim(command, leaseSeconds=20)
    assert (claim["task"]["id"], claim["task"]["status"], claim["leaseSeconds"]) == (task_id, "IN_PROGRESS", 20)
    assert service.get(f"/v1/tasks/{task_id}").json()["leaseUntil"] == claim["leaseUntil"]
    assert (claim["task"]["attempts"], claim["leaseToken"].partition(".")[0]) == (1, str(claim["fence"]))


@pytest.mark.parametrize("seconds", [0.5, 3601, -1, 0, "10", None])
def test_a_lease_outside_of_the_bounds_is_refused(service, command, seconds):
    """23: optional leaseSeconds, within the bounds of the settings."""
    service.enqueue(command)
    answer = service.post("/v1/tasks/claim", {"commands": [command], "leaseSeconds": seconds})
    assert answer.status_code == (200 if seconds is None else 400)
    if seconds is not None:
        assert answer.json()["field"] == "leaseSeconds"


def test_without_an_available_task_the_answer_is_204(service, command):
    """28: if no task is available, returns 204."""
    answer = service.post("/v1/tasks/claim", {"commands": [command]})
    assert (answer.status_code, answer.content) == (204, b"")


def test_of_many_claims_at_once_each_task_has_one(service, command):
    """26-27: RPOPLPUSH, then SETEX. Here one transaction: no claim sees another one half done, and repairs it."""
    ids = [service.enqueue(command) for _ in range(4)]
    body = {"commands": [command]}
    answers = [one() for one in [in_thread(lambda: service.post("/v1/tasks/claim", body)) for _ in range(8)]]
    claimed = [answer.json()["task"] for answer in answers if answer.status_code == 200]
    assert sorted(task["id"] for task in claimed) == sorted(ids)
    assert {task["attempts"] for task in claimed} == {1}


def test_a_claim_gets_a_task_whose_lease_has_expired(service, command):
    """12, 25, 47: requeue expired leases during claim operations."""
    task_id = service.enqueue(command)
    lose_lease(service, command)
    task = service.claim(command, waitSeconds=20)["task"]  # the reaper of the service may have the lease just now
    assert (task["id"], task["attempts"]) == (task_id, 2)


def test_a_claim_gets_a_delayed_task_that_is_due(service, command):
    """25, 47: move due delayed tasks to pending."""
    task_id = service.enqueue(command, delaySeconds=0.05)
    service.enqueue(command, delaySeconds=3600)
    assert service.claim(command, waitSeconds=50)["task"]["id"] == task_id
    assert service.post("/v1/tasks/claim", {"commands": [command]}).status_code == 204


def test_an_expired_lease_is_repaired_also_while_nobody_claims(guarded, command):
    """47: repair during claim operations only. Here also by a loop of the service."""
    task_id = guarded.post("/v1/tasks", {"command": command}, token=PRODUCER).json()["taskId"]
    lose_lease(guarded, command)
    wait_until(lambda: guarded.store.get(task_id).state is State.READY)
    assert guarded.get(f"/v1/tasks/{task_id}", token=PRODUCER).json()["status"] == "PENDING"


# Completion ---------------------------------------------------------------------------------------------------


def test_a_completed_task_has_its_result(service, command):
    """7-8, 32-35: COMPLETED; stores the result record, updates the status, clears the lease."""
    task_id = service.enqueue(command)
    assert service.get(f"/v1/tasks/{task_id}/result").status_code == 202
    answer = service.settle("result", service.claim(command), status="COMPLETED", result={"rows": 3})
    assert answer.json() == {"taskId": task_id, "status": "COMPLETED"}
    result = service.get(f"/v1/tasks/{task_id}/result")
    assert (result.status_code, result.json()["result"]) == (200, {"rows": 3})
    assert service.get(f"/v1/tasks/{task_id}").json()["leaseUntil"] is None


@pytest.mark.parametrize(
    "body", [{}, {"status": "DONE"}, {"status": "FAILED", "result": 1}, {"status": "COMPLETED", "x": 1}]
)
def test_a_completion_that_is_not_valid_changes_nothing(service, command, body):
    """8: validates completion payloads."""
    task_id = service.enqueue(command)
    answer = service.settle("result", service.claim(command), **body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert status(service, task_id) == "IN_PROGRESS"


@pytest.mark.parametrize(("fields", "wanted"), [({}, {"FAILED"}), ({"retryable": True}, {"DELAYED", "PENDING"})])
def test_failed_is_final_unless_it_is_retryable(service, command, fields, wanted):
    """32: FAILED."""
    task_id = service.enqueue(command)
    answer = service.settle("result", service.claim(command), status="FAILED", error="no such address", **fields)
    assert answer.json()["status"] in wanted
    assert service.get(f"/v1/tasks/{task_id}").json()["error"] == "no such address"


ENDINGS = [
    ("result", {"status": "COMPLETED", "result": 1}),
    ("result", {"status": "FAILED", "error": "no"}),
    ("nack", {"delaySeconds": 3600}),
    ("nack", {}),
    ("abandon", {"delaySeconds": 3600}),
]


@pytest.mark.parametrize(("verb", "fields"), ENDINGS)
def test_a_repeated_call_gets_the_first_answer_and_changes_nothing(service, command, verb, fields):
    """32-36, 41-44: several steps. Here one transaction: a worker whose answer was lost repeats its call."""
    task_id = service.enqueue(command)
    claim = service.claim(command)
    first = service.settle(verb, claim, **fields)
    assert first.status_code == 200
    before = service.store.get(task_id)
    again = service.settle(verb, claim, **fields)
    assert (again.status_code, again.json()) == (200, first.json())
    assert service.store.get(task_id) == before


@pytest.mark.parametrize(("verb", "fields"), [*ENDINGS, ("heartbeat", {})])
def test_a_call_after_another_end_is_refused(service, command, verb, fields):
    """33, 41: verifies task ownership and status."""
    service.enqueue(command)
    claim = service.claim(command)
    end = ("abandon", {}) if verb != "abandon" else ("result", {"status": "COMPLETED"})
    service.settle(end[0], claim, **end[1])
    refused = service.settle(verb, claim, **fields)
    assert (refused.status_code, refused.json()["code"]) == (409, "not_in_progress")


@pytest.mark.parametrize(("verb", "fields"), [*ENDINGS, ("heartbeat", {})])
def test_a_stale_token_is_refused_and_changes_nothing(service, command, verb, fields):
    """33, 41: verifies task ownership. An old attempt changes nothing."""
    task_id = service.enqueue(command)
    stale = service.claim(command)
    service.settle("abandon", stale)
    service.claim(command)
    before = service.store.do(Inspect(job_ids=[task_id]))[task_id]
    for token in (stale["leaseToken"], "1.0", "x", "9" * 200):
        answer = service.post(f"/v1/tasks/{task_id}/{verb}", {"leaseToken": token, **fields})
        assert (answer.status_code, answer.json()["code"]) == (409, "lease_mismatch"), token
    assert service.store.do(Inspect(job_ids=[task_id]))[task_id] == before


def test_an_artifact_is_visible_once_the_completion_has_named_it(service, command):
    """10, 34: persists artifacts (optional)."""
    service.enqueue(command)
    claimed = service.claim(command)
    stored = upload(service, claimed, "page.html", **{"content-type": "text/html"})
    assert (stored.status_code, stored.json()["sha256"], stored.json()["size"]) == (201, DIGEST, len(CONTENT))
    assert upload(service, claimed, "unnamed").status_code == 201
    assert names_of(service, claimed) == []
    assert download(service, claimed, "page.html").status_code == 404

    done = service.settle("result", claimed, status="COMPLETED", result=1, artifacts=["page.html"])
    assert (done.status_code, done.json()["status"]) == (200, "COMPLETED")
    assert names_of(service, claimed) == ["page.html"]
    [found] = service.get(f"/v1/tasks/{claimed['task']['id']}/result").json()["artifacts"]
    assert (found["name"], found["sha256"], found["contentType"]) == ("page.html", DIGEST, "text/html")
    repeated = service.settle("result", claimed, status="COMPLETED", result=1, artifacts=["page.html"])
    assert repeated.json() == done.json()
    assert download(service, claimed, "page.html").content == CONTENT
    assert download(service, claimed, "unnamed").status_code == 404


# NACK ---------------------------------------------------------------------------------------------------------


def test_a_nack_delays_the_task(service, command):
    """40-43: POST /tasks/:id/nack, delayed queue, clears the lease."""
    task_id = service.enqueue(command, maxAttempts=2)
    answer = service.settle("nack", service.claim(command), delaySeconds=3600, reason="busy")
    assert answer.json() == {"taskId": task_id, "status": "DELAYED", "delaySeconds": 3600}
    task = service.get(f"/v1/tasks/{task_id}").json()
    assert (task["status"], task["error"], task["leaseUntil"]) == ("DELAYED", "busy", None)
    assert service.post("/v1/tasks/claim", {"commands": [command]}).status_code == 204


def test_a_nack_without_a_delay_computes_one_and_the_last_one_fails_the_task(service, command):
    """42: computes backoff delay."""
    task_id = service.enqueue(command, maxAttempts=2)
    answer = service.settle("nack", service.claim(command)).json()
    assert 0 <= answer["delaySeconds"] <= 3600
    last = service.enqueue(command, maxAttempts=1, priority=9)
    assert service.settle("nack", service.claim(command)).json() == {"taskId": last, "status": "FAILED"}
    assert status(service, task_id) != "FAILED"


# Notifications ------------------------------------------------------------------------------------------------


def test_workers_are_told_of_work_and_still_claim_it(service, receiver, command):
    """12, 51-53: a callback URL for event types; event type, claim URL; fanout, group (one per group), hash."""
    body = {"eventTypes": [command], "minIntervalSeconds": 3600}
    for path in ("fanout/1", "fanout/2", "group/1", "group/2", "hash/1", "hash/2"):
        mode = path[:-2]
        group = {"groupId": command} if mode == "group" else {}
        answer = service.post(
            "/v1/workers/subscriptions",
            {**body, **group, "callbackUrl": f"{receiver.url}/{path}", "deliveryMode": mode},
        )
        assert answer.status_code == 201
    task_id = service.enqueue(command)

    def told():
        return [one for one in list(receiver.received) if one.body.get("eventType") == command]

    wait_until(lambda: len(told()) >= 4)
    assert sorted(one.path[1:-2] for one in told()) == ["fanout", "fanout", "group", "hash"]
    assert len({one.path for one in told()}) == 4
    assert all(one.is_signed_with(SECRET) for one in told())
    assert status(service, task_id) == "PENDING"
    claim_url = told()[0].body["claimUrl"]
    assert service.client.post(claim_url, json={"commands": [command]}).json()["task"]["id"] == task_id


def test_the_result_is_posted_to_the_webhook_of_the_task(service, receiver, command):
    """16, 36, 55: when a task completes or fails, posts a result payload. This replaces polling the result."""
    done, failed = (service.enqueue(command, webhook=f"{receiver.url}/hook") for _ in range(2))
    service.settle("result", service.claim(command), status="COMPLETED", result=[1])
    service.settle("result", service.claim(command), status="FAILED", error="no")
    bodies = [receiver.await_callback(task_id).body for task_id in (done, failed)]
    assert [(one["status"], one["result"], one["error"]) for one in bodies] == [
        ("COMPLETED", [1], None),
        ("FAILED", None, "no"),
    ]
    assert receiver.await_callback(done).is_signed_with(SECRET)


def test_a_webhook_that_is_not_allowed_is_refused(service, command):
    """16: optional webhook. The settings say where callbacks may go."""
    answer = service.post("/v1/tasks", {"command": command, "webhook": "http://169.254.169.254/latest"})
    assert (answer.status_code, answer.json()["field"]) == (400, "webhook")


def test_without_a_secret_there_are_no_webhooks(guarded, command):
    """11: optional webhook signal dispatcher."""
    task = {"command": command, "webhook": "https://example.org/"}
    answer = guarded.post("/v1/tasks", task, token=PRODUCER)
    assert (answer.status_code, answer.json()["code"]) == (422, "unsupported")


def test_a_callback_that_fails_is_sent_again_after_a_delay(service, receiver, command):
    """55: retries with backoff. The delivery is a job, which survives a crash of the service."""
    task_id = service.enqueue(command, webhook=f"{receiver.url}/down")
    service.settle("result", service.claim(command), status="COMPLETED")
    receiver.await_callback(task_id)
    [delivery] = wait_until(
        lambda: [job for job in service.store.find(JobFilter(queue=DELIVERIES)) if job.failed_at is not None]
    )
    assert (delivery.state, delivery.attempts) == (State.READY, 1)
    assert delivery.run_at > delivery.failed_at
    assert "503" in delivery.last_error


def test_a_producer_may_wait_for_the_result_instead(service, command):
    """55: polling GET /tasks/:id/result."""
    task_id = service.enqueue(command)
    claim = service.claim(command)
    waiting = in_thread(lambda: service.get(f"/tasks/{task_id}/result", wait=50))
    service.settle("result", claim, status="COMPLETED", result=1)
    assert (waiting().status_code, waiting().json()["result"]) == (200, 1)
