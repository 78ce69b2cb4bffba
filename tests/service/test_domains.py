"""Domains over HTTP: offsets of tasks, halted domains and gaps."""

from __future__ import annotations

import pytest

from tests.service.http_service import in_thread


@pytest.fixture
def service(sqlite_service):
    """SQLite is enough: the conformance suite checks every driver."""
    return sqlite_service


@pytest.fixture
def queue(service, command) -> str:
    """A queue whose domains halt and wait."""
    changes = {"onExhausted": "halt", "gaps": "wait", "gapReportAfterSeconds": 60.5}
    state = service.client.patch(f"/v1/queues/{command}/settings", json=changes).json()
    assert {name: state[name] for name in changes} == changes
    assert state["gapPassAfterSeconds"] is None
    return command


def test_an_offset_that_has_ended_is_past(service, command):
    task = {"command": command, "domain": "customer 7", "offset": 5}
    first = service.post("/v1/tasks", task).json()
    assert (first["existed"], first["past"]) == (False, False)
    service.settle("result", service.claim(command), status="COMPLETED")
    again = service.post("/v1/tasks", task)
    assert (again.status_code, again.json()) == (202, {"taskId": first["taskId"], "existed": True, "past": True})
    [item] = service.post("/v1/tasks/batch", {"tasks": [task]}).json()["tasks"]
    assert item["past"]
    assert service.post("/v1/tasks", {**task, "payload": 1}).json()["code"] == "idempotency_conflict"


def test_a_halted_domain_is_listed_and_resumed(service, command, queue):
    ids = [service.enqueue(command, queue=queue, domain="a/b", offset=offset) for offset in (0, 1)]
    service.settle("result", service.claim(command, queues=[queue]), status="FAILED")
    [domain] = service.get("/v1/domains", queue=queue, status="halted").json()["domains"]
    assert (domain["domain"], domain["haltedBy"], domain["openTasks"]) == ("a/b", ids[0], 1)
    assert domain["haltedAt"] is not None
    claim = in_thread(lambda: service.claim(command, queues=[queue], waitSeconds=50))
    resume = f"/v1/queues/{queue}/domains/resume"
    assert service.post(resume, {"domain": "a/b", "action": "retry"}).json() == {"changed": True}
    assert claim()["task"]["id"] == ids[0]
    assert service.post(resume, {"domain": "a/b", "action": "skip"}).json() == {"changed": False}


def test_a_waiting_domain_is_listed_and_moved(service, command, queue):
    task_id = service.enqueue(command, queue=queue, domain="gap", offset=7)
    assert service.post("/v1/tasks/claim", {"queues": [queue]}).status_code == 204
    [domain] = service.get("/v1/domains", queue=queue, domain="gap").json()["domains"]
    assert (domain["status"], domain["waitsFor"], domain["firstTaskId"]) == ("waiting", 0, task_id)
    assert service.post(f"/v1/queues/{queue}/domains/resume", {"domain": "gap", "position": 7}).json()["changed"]
    assert service.claim(command, queues=[queue])["task"]["offset"] == 7


def test_a_command_has_no_order_of_its_own(service, command):
    answer = service.client.patch(f"/v1/queues/{command}/settings", json={"command": command, "gaps": "wait"})
    assert (answer.status_code, answer.json()["field"]) == (400, "command")
