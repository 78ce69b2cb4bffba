"""Operators and autoscalers: counts, search, requeue, pause, limits, health and metrics."""

from __future__ import annotations

import pytest

from holdfast.driver import JobRecord
from holdfast.drivers.requests import FIND_BYTES
from holdfast.service.timing import ServiceTiming
from holdfast.worker.timing import MaintenanceTiming
from tests.service.http_service import in_thread, running_service, sqlite_url
from tests.waiting import wait_until


@pytest.fixture
def queue(command) -> str:
    return command


@pytest.fixture(scope="module")
def timing() -> ServiceTiming:
    """Count at every call: the age of an answer is another test's topic."""
    return ServiceTiming(count_age_seconds=0.0)


@pytest.fixture(autouse=True)
def fresh_counts(monkeypatch):
    monkeypatch.setattr("holdfast.service.tenants.queue_counts.REST_FACTOR", 0)


def test_a_queue_is_counted_by_status(service, command, queue):
    ids = [service.enqueue(command, queue=queue) for _ in range(4)]
    service.enqueue(command, queue=queue, delaySeconds=3600)
    claims = service.post("/v1/tasks/claim", {"queues": [queue], "limit": 3}).json()["claims"]
    service.settle("result", claims[0], status="FAILED")
    service.settle("result", claims[1], status="COMPLETED")
    counts = service.get(f"/v1/queues/{queue}").json()
    assert counts.pop("oldestAgeSeconds") >= 0
    assert counts == {"queue": queue, "pending": 1, "delayed": 1, "inProgress": 1, "failed": 1}
    assert queue in [row["queue"] for row in service.get("/v1/queues").json()["queues"]]
    stats = service.get("/v1/autoscale", queue=queue, tasksPerWorker=2).json()
    assert (stats["backlog"], stats["desiredWorkers"], stats["delayed"]) == (2, 1, 1)
    assert len(ids) == 4
    assert service.get("/v1/queues/empty").json()["oldestAgeSeconds"] is None


def test_tasks_are_found_page_by_page(service, command, queue):
    ids = [service.enqueue(command, queue=queue) for _ in range(5)]
    found, after = [], None
    while True:
        page = service.get("/v1/tasks", queue=queue, limit=2, **({"after": after} if after else {})).json()
        found += [task["id"] for task in page["tasks"]]
        after = page["cursor"]
        if after is None:
            break
    assert found == ids
    later = service.enqueue(command, queue=queue, delaySeconds=3600)
    assert [task["id"] for task in service.get("/v1/tasks", queue=queue, status="DELAYED").json()["tasks"]] == [later]
    assert len(service.get("/v1/tasks", command=command, status="PENDING").json()["tasks"]) == 5


@pytest.mark.parametrize(("name", "value"), [("status", "null"), ("status", "NULL"), ("createdFrom", "null")])
def test_null_is_no_value_of_a_parameter(service, name, value):
    answer = service.get("/v1/tasks", **{name: value})
    assert (answer.status_code, answer.json()["field"]) == (400, name)


def test_a_page_of_large_tasks_is_bounded_by_its_bytes(service, command, queue):
    payload = b'"' + b"x" * (FIND_BYTES // 3) + b'"'
    jobs = [JobRecord(id=f"{queue}-{n}", type=command, queue=queue, payload=payload, created_at=n) for n in range(5)]
    service.store.enqueue(jobs)
    first = service.get("/v1/tasks", queue=queue, limit=1000)
    assert len(first.content) < 2 * FIND_BYTES
    second = service.get("/v1/tasks", queue=queue, limit=1000, after=first.json()["cursor"])
    pages = [[task["id"] for task in page.json()["tasks"]] for page in (first, second)]
    assert pages == [[job.id for job in jobs[:3]], [job.id for job in jobs[3:]]]
    assert second.json()["cursor"] is None


def test_failed_tasks_are_requeued(service, command):
    task_id = service.enqueue(command, maxAttempts=1)
    service.settle("result", service.claim(command), status="FAILED")
    answer = service.post("/v1/tasks/requeue", {"taskIds": [task_id, "unknown"]})
    assert answer.json() == {"requeued": [True, False]}
    assert service.claim(command)["task"]["attempts"] == 1


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(service, command, queue):
    service.enqueue(command, queue=queue)
    state = service.post(f"/v1/queues/{queue}/pause").json()
    assert (state["paused"], state["pausedUntil"]) == (True, None)
    assert service.post("/v1/tasks/claim", {"queues": [queue]}).status_code == 204
    claim = in_thread(lambda: service.claim(command, queues=[queue], waitSeconds=50))
    assert service.post(f"/v1/queues/{queue}/resume").json()["paused"] is False
    assert claim()["task"]["queue"] == queue


def test_a_pause_may_have_an_end_and_a_command(service, command, queue):
    state = service.post(f"/v1/queues/{queue}/pause", {"command": command, "forSeconds": 3600}).json()
    assert state["pausedUntil"] is not None
    assert service.get(f"/v1/queues/{queue}/settings").json()["paused"] is False
    assert service.get(f"/v1/queues/{queue}/settings", command=command).json()["paused"] is True
    assert service.post(f"/v1/queues/{queue}/resume", {"command": command}).json()["paused"] is False


def test_limits_are_changed_one_by_one(service, command, queue):
    for _ in range(3):
        service.enqueue(command, queue=queue)
    path = f"/v1/queues/{queue}/settings"
    assert service.client.patch(path, json={"maxInProgress": 1, "rate": 100, "burst": 5}).json()["burst"] == 5
    assert len(service.post("/v1/tasks/claim", {"queues": [queue], "limit": 3}).json()["claims"]) == 1
    changed = service.client.patch(path, json={"maxInProgress": None}).json()
    assert (changed["maxInProgress"], changed["rate"]) == (None, 100)
    changed = service.client.patch(path, json={"rate": None}).json()
    assert (changed["rate"], changed["burst"]) == (None, None)
    assert service.client.patch(path, json={"burst": 5}).json()["code"] == "invalid_request"
    assert service.client.patch("/v1/queues/no%20name/settings", json={"rate": 1}).json()["code"] == "invalid_request"


def test_counts_are_kept_for_a_while(tmp_path, command):
    with running_service(sqlite_url(tmp_path), timing=ServiceTiming(count_age_seconds=3600.0)) as running:
        assert running.get(f"/v1/queues/{command}").json()["pending"] == 0
        running.enqueue(command, queue=command)
        assert running.get(f"/v1/queues/{command}").json()["pending"] == 0


def test_probes_and_metrics(sqlite_service, command):
    assert sqlite_service.get("/readyz").json() == {"ok": True, "reasons": []}
    sqlite_service.enqueue(command)
    assert 'holdfast_http_requests_total{operation="enqueueTask",status="202"}' in sqlite_service.get("/metrics").text
    sqlite_service.store.close()
    down = sqlite_service.get("/readyz")
    assert (down.status_code, down.json()["reasons"]) == (503, ["the store failed: StoreClosed"])
    away = sqlite_service.post("/v1/tasks", {"command": command})
    assert (away.status_code, away.json()["code"]) == (503, "store_unavailable")
    assert int(away.headers["retry-after"]) > 0
    assert sqlite_service.get("/healthz").status_code == 200


def test_a_service_whose_file_was_moved_accepts_nothing_and_says_why(tmp_path, command, caplog):
    timing = ServiceTiming(maintenance_seconds=0.01, maintenance=MaintenanceTiming(reap_seconds=0.0))
    with running_service(sqlite_url(tmp_path), timing=timing) as running:
        first = running.enqueue(command)
        file = tmp_path / "jobs.db"
        file.rename(tmp_path / "moved.db")
        refused = running.post("/v1/tasks", {"command": command})
        assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
        assert running.get(f"/v1/tasks/{first}").status_code == 503
        down = running.get("/readyz")
        assert down.status_code == 503
        assert "the SQLite file was moved, deleted or replaced" in down.json()["reasons"][0]
        wait_until(lambda: f"StoreMoved: wanted the SQLite file that was opened at {file}" in caplog.text)
        assert not file.exists()
        (tmp_path / "moved.db").rename(file)
        assert running.get("/readyz").status_code == 200
        assert running.claim(command)["task"]["id"] == first
