"""Rows that cannot be read, over HTTP: claims go on, and every list shows them (L9)."""

from __future__ import annotations

import sqlite3

import pytest

from holdfast import connect
from holdfast.model.filters import JobFilter
from holdfast.model.job import State

HOSTILE = {
    "meta": "x'fffe'",
    "name": "cast(x'61ff' as text)",
    "attempts": "9223372036854775807",
    "created_at": "9223372036854775807",
    "run_at": "-9223372036854775807",
    "payload": "x'fffe'",
    "last_error": "cast(x'61ff' as text)",
    "available_at": "-9223372036854775807",
}


@pytest.mark.parametrize("column", HOSTILE)
def test_claims_and_lists_go_on(sqlite_service, command, column):
    bad, *good = [sqlite_service.enqueue(command) for _ in range(3)]
    with sqlite3.connect(sqlite_service.store.engine.path) as connection:
        connection.execute(f"UPDATE holdfast_jobs SET {column} = {HOSTILE[column]} WHERE id = ?", [bad])
    connection.close()
    assert sqlite_service.get(f"/v1/tasks/{bad}").status_code == 200
    assert len(sqlite_service.get("/v1/tasks", command=command).json()["tasks"]) == 3
    with connect(sqlite_service.url) as remote:
        assert len(remote.find(JobFilter(type=command)).items) == 3
    claimed = []
    for _ in range(4):
        answer = sqlite_service.post("/v1/tasks/claim", {"commands": [command]})
        assert answer.status_code in (200, 204)
        if answer.status_code == 200:
            claimed.append(answer.json()["task"]["id"])
            assert sqlite_service.settle("result", answer.json(), status="COMPLETED").status_code == 200
    assert [task for task in claimed if task != bad] == good
    assert sqlite_service.get(f"/v1/tasks/{bad}").status_code == 200
    dead = sqlite_service.store.find(JobFilter(states={State.DEAD}, type=command)).items
    reason = "bad payload" if column == "payload" else "unreadable"
    assert [(job.id, job.dead_reason) for job in dead] == ([] if bad in claimed else [(bad, reason)])
    if dead and reason == "unreadable":
        assert sqlite_service.post("/v1/tasks/requeue", {"taskIds": [bad]}).json() == {"requeued": [False]}
