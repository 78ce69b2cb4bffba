"""Producers: enqueue, read, wait for the result, cancel."""

from __future__ import annotations

import threading
import time

import pytest

TIMEOUT_SECONDS = 60.0


def test_a_new_task_is_pending_and_its_answer_says_where_it_is(service, command):
    answer = service.post("/v1/tasks", {"command": command, "priority": 7, "maxAttempts": 3, "queue": "mail"})
    assert answer.status_code == 202
    assert answer.json()["existed"] is False
    task = service.get(answer.headers["location"]).json()
    assert (task["status"], task["command"], task["queue"], task["priority"], task["maxAttempts"]) == (
        "PENDING",
        command,
        "mail",
        7,
        3,
    )


def test_the_paths_without_a_version_are_the_same_calls(service, command):
    task_id = service.post("/tasks", {"command": command}).json()["taskId"]
    assert service.get(f"/tasks/{task_id}").json() == service.get(f"/v1/tasks/{task_id}").json()
    assert service.post("/tasks/claim", {"commands": [command]}).json()["task"]["id"] == task_id


@pytest.mark.parametrize("when", [{"delaySeconds": 3600}, {"runAt": "2090-01-01T00:00:00+01:00"}])
def test_a_task_for_later_is_delayed_and_not_claimed(service, command, when):
    task_id = service.enqueue(command, **when)
    assert service.get(f"/v1/tasks/{task_id}").json()["status"] == "DELAYED"
    assert service.post("/v1/tasks/claim", {"commands": [command]}).status_code == 204


def test_a_task_whose_time_has_passed_is_due_at_once(service, command):
    queue = f"{command}.past"
    task_id = service.enqueue(command, queue=queue, runAt="2001-01-01T00:00:00Z")
    assert service.get(f"/v1/tasks/{task_id}").json()["status"] == "PENDING"
    assert service.get(f"/v1/queues/{queue}").json()["oldestAgeSeconds"] < 3600


def test_a_payload_that_is_too_large_is_413(service, command):
    task = {"command": command, "payload": "x" * (1 << 20)}
    answer = service.post("/v1/tasks", task)
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (413, "body_too_large", "payload")
    [item] = service.post("/v1/tasks/batch", {"tasks": [task]}).json()["tasks"]
    assert item["problem"]["status"] == 413


def test_an_idempotency_key_stores_one_task(service, command):
    first = service.post("/v1/tasks", {"command": command, "payload": 1, "idempotencyKey": command})
    again = service.post("/v1/tasks", {"command": command, "payload": 1, "idempotencyKey": command})
    assert again.status_code == 202
    assert again.json() == {"taskId": first.json()["taskId"], "existed": True, "past": False}
    other = service.post("/v1/tasks", {"command": command, "payload": 2, "idempotencyKey": command})
    assert other.status_code == 409
    assert (other.json()["code"], other.json()["taskId"]) == ("idempotency_conflict", first.json()["taskId"])


def test_many_requests_at_once_with_one_key_store_one_task(service, command):
    ids: list[str] = []

    def enqueue() -> None:
        ids.append(service.enqueue(command, idempotencyKey=command))

    threads = [threading.Thread(target=enqueue) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
    assert len(ids) == 20
    assert len(set(ids)) == 1


def test_each_task_of_a_batch_has_its_own_outcome(service, command):
    tasks = [
        {"command": command, "idempotencyKey": command},
        {"command": "not a name"},
        {"command": command, "unknown": 1},
        7,
        {"command": command, "idempotencyKey": command},
        {"command": command, "delaySeconds": 1, "runAt": "2090-01-01T00:00:00Z"},
        {"command": command, "payload": 1, "idempotencyKey": command},
        {"command": command, "domain": "\u0007"},
    ]
    answer = service.post("/v1/tasks/batch", {"tasks": tasks})
    assert answer.status_code == 202
    items = answer.json()["tasks"]
    codes = [item["problem"]["code"] if "problem" in item else item["existed"] for item in items]
    invalid = "invalid_request"
    assert codes == [False, invalid, invalid, invalid, True, invalid, "idempotency_conflict", invalid]
    assert items[1]["problem"]["field"] == "command"
    assert items[0]["taskId"] == items[4]["taskId"] == items[6]["problem"]["taskId"]


def test_each_task_of_a_batch_of_alike_tasks_has_its_own_outcome(service, command):
    task = {"command": command, "runAt": "2001-01-01T00:00:00Z", "maxAttempts": 3}
    bodies = [
        {**task, "payload": {"n": [1.5, None, "ü"]}, "idempotencyKey": command},
        {**task, "payload": "x" * (1 << 20)},
        {**task, "idempotencyKey": "a\u0007"},
        {**task, "payload": {"n": [1.5, None, "ü"]}, "idempotencyKey": command},
        {**task, "payload": 2, "idempotencyKey": command},
        {**task, "payload": 3},
    ]
    answer = service.post("/v1/tasks/batch", {"tasks": bodies})
    tasks = answer.json()["tasks"]
    codes = [one["problem"]["code"] if "problem" in one else one["existed"] for one in tasks]
    assert codes == [False, "body_too_large", "invalid_request", True, "idempotency_conflict", False]
    assert tasks[0]["taskId"] == tasks[3]["taskId"] == tasks[4]["problem"]["taskId"]
    claims = service.post("/v1/tasks/claim", {"commands": [command], "limit": 9}).json()["claims"]
    assert [(one["task"]["payload"], one["task"]["maxAttempts"]) for one in claims] == [
        (bodies[0]["payload"], 3),
        (3, 3),
    ]
    refused = service.post("/v1/tasks/batch", {"tasks": [{**task, "webhook": "http://10.0.0.1/"}] * 2}).json()["tasks"]
    assert [one["problem"]["field"] for one in refused] == ["webhook"] * 2


def test_a_batch_has_a_thousand_tasks_at_most(service, command):
    assert service.post("/v1/tasks/batch", {"tasks": [{"command": command}] * 1001}).status_code == 400
    assert service.post("/v1/tasks/batch", {"tasks": []}).status_code == 400
    answer = service.post("/v1/tasks/batch", {"tasks": [{"command": command}] * 1000})
    assert len({item["taskId"] for item in answer.json()["tasks"]}) == 1000


def test_a_result_is_there_when_the_task_has_ended(service, command):
    task_id = service.enqueue(command)
    waiting = service.get(f"/v1/tasks/{task_id}/result")
    assert (waiting.status_code, waiting.json()["status"]) == (202, "PENDING")
    service.settle("result", service.claim(command), status="COMPLETED", result={"rows": 3})
    ended = service.get(f"/v1/tasks/{task_id}/result", wait=0)
    assert ended.status_code == 200
    assert ended.json() | {"completedAt": None} == {
        "taskId": task_id,
        "command": command,
        "status": "COMPLETED",
        "result": {"rows": 3},
        "error": None,
        "reason": None,
        "attempts": 1,
        "completedAt": None,
        "artifacts": [],
    }
    assert ended.json()["completedAt"] is not None


def test_a_wait_that_ends_without_a_result_is_answered_with_202(service, command):
    task_id = service.enqueue(command)
    began = time.monotonic()
    assert service.get(f"/v1/tasks/{task_id}/result", wait=0.3).status_code == 202
    assert time.monotonic() - began >= 0.3
    assert service.get(f"/v1/tasks/{task_id}/result", wait=61).json()["field"] == "wait"


def test_a_waiting_task_is_cancelled_at_once(service, command):
    task_id = service.enqueue(command)
    answer = service.client.post(f"/v1/tasks/{task_id}/cancel").json()
    assert answer == {"taskId": task_id, "status": "CANCELLED", "cancelRequested": False}
    assert service.post("/v1/tasks/claim", {"commands": [command]}).status_code == 204


def test_the_worker_of_a_cancelled_task_learns_it_from_its_heartbeat(service, command):
    task_id = service.enqueue(command)
    claim = service.claim(command)
    answer = service.client.post(f"/v1/tasks/{task_id}/cancel").json()
    assert (answer["status"], answer["cancelRequested"]) == ("IN_PROGRESS", True)
    assert service.settle("heartbeat", claim).json()["cancelRequested"] is True
    assert service.settle("abandon", claim).json()["status"] == "CANCELLED"


@pytest.mark.parametrize("path", ["", "/result", "/cancel", "/heartbeat", "/nack", "/abandon"])
def test_an_unknown_id_is_not_found(service, path):
    body = {"leaseToken": "1.0"}
    for task_id in ("unknown", "%00", "..%2f..%2fetc", "x" * 200, "a%20b"):
        if path in ("", "/result"):
            answer = service.get(f"/v1/tasks/{task_id}{path}")
        elif path == "/cancel":
            answer = service.client.post(f"/v1/tasks/{task_id}{path}")
        else:
            answer = service.post(f"/v1/tasks/{task_id}{path}", body)
        assert answer.status_code == 404, (task_id, answer.text)
        assert answer.json()["code"] == "not_found"
