"""Calls of operators about retention and schedules."""

from __future__ import annotations

from holdfast import connect
from holdfast.app import Holdfast
from holdfast.clock import ManualClock
from holdfast.cron import Schedule
from holdfast.driver import DAY, SECOND, Ack, Fail, JobRecord
from holdfast.service.routes import cleanup
from holdfast.service.schemas.operators import CleanupRequest
from tests.service.http_service import sqlite_url


def test_cleanup_removes_what_is_older_than_its_retention(service, command):
    service.enqueue(command)
    service.settle("result", service.claim(command), status="COMPLETED")
    answer = service.post("/v1/cleanup", {"keepLedgerSeconds": 1_000_000, "limit": 10})
    assert answer.status_code == 200
    nothing = {"tasks": 0, "failedTasks": 0, "ledgerRows": 0, "idempotencyKeys": 0, "registryEntries": 0, "more": False}
    assert answer.json() == nothing
    for body in ({"keepEndedSeconds": 1}, {"keepFailedSeconds": 1}, {"limit": 0}, {"keepLedgerSeconds": -1}):
        assert service.post("/v1/cleanup", body).status_code == 400


def test_cleanup_removes_old_tasks_and_failed_ones_only_if_it_is_told_to(tmp_path):
    clock = ManualClock()
    with connect(sqlite_url(tmp_path), clock=clock) as store:
        ends = {"done": Ack, "dead": lambda lease: Fail(lease, reason="broken")}
        for id_, end in ends.items():
            store.enqueue([JobRecord(id=id_, type="t", queue="q", payload=b"1", created_at=clock.now())])
            [reservation] = store.reserve(["q"], limit=1, lease_for=SECOND)
            store.settle([end(reservation.lease)])
        clock.advance(10 * DAY)
        request = CleanupRequest(keep_ended_seconds=5 * 86_400)
        removed = cleanup._remove(store, request)
        assert (removed.tasks, removed.failed_tasks, removed.more) == (1, 0, False)
        removed = cleanup._remove(store, CleanupRequest(keep_failed_seconds=20 * 86_400))
        assert removed.failed_tasks == 0
        removed = cleanup._remove(store, CleanupRequest(keep_failed_seconds=5 * 86_400))
        assert (removed.failed_tasks, store.get("dead")) == (1, None)


def test_schedules_are_listed_paused_resumed_and_run(service, command):
    app = Holdfast(driver=service.store)
    app.schedules.put(Schedule(name=command, expression="0 6 * * *", type=command, queue="default"))
    shown = service.get(f"/v1/schedules/{command}").json()
    assert {name: shown[name] for name in ("name", "command", "queue", "expression", "timezone", "status")} == {
        "name": command,
        "command": command,
        "queue": "default",
        "expression": "0 6 * * *",
        "timezone": "UTC",
        "status": "active",
    }
    assert shown in service.get("/v1/schedules").json()["schedules"]
    paused = service.client.post(f"/v1/schedules/{command}/pause")
    assert (paused.status_code, paused.json()["status"], paused.json()["nextFire"]) == (200, "paused", None)
    task_id = service.client.post(f"/v1/schedules/{command}/run").json()["taskId"]
    assert service.claim(command)["task"]["id"] == task_id
    assert service.client.post(f"/v1/schedules/{command}/resume").json()["status"] == "active"
    for answer in (service.get("/v1/schedules/no-such"), service.client.post("/v1/schedules/no-such/run")):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_schedule_without_a_queue_is_run_where_its_handler_is_known(service, command):
    Holdfast(driver=service.store).schedules.put(Schedule(name=command, expression="0 6 * * *", type=command))
    answer = service.client.post(f"/v1/schedules/{command}/run")
    assert (answer.status_code, answer.json()["field"]) == (400, "schedule")
