"""Payloads that are too large for a task: streamed in by a producer, and out to the worker of the task."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

import pytest

import holdfast
from holdfast import Holdfast
from holdfast.artifacts.usage import Usage, read_usage
from holdfast.errors import PayloadError
from holdfast.model.secret import Secret
from holdfast.settings import Settings, SigningMode
from tests.service.artifact_calls import files_of, upload
from tests.service.http_service import JSON, running_service, sqlite_url

LARGE = {"text": "x" * (3 << 20)}
BODY = json.dumps(LARGE).encode()


@pytest.fixture(params=[SigningMode.OFF, SigningMode.REQUIRED])
def settings(request, tmp_path):
    return Settings(
        url=sqlite_url(tmp_path),
        artifacts=str(tmp_path / "artifacts"),
        signing=request.param,
        signing_key=Secret("a secret of sixteen bytes"),
    )


@pytest.fixture
def service(settings):
    with running_service(settings.url, settings) as running:
        yield running


@pytest.fixture
def app(settings):
    app = Holdfast()
    app.use_settings(settings)
    yield app
    app.close()


def enqueue_large(service, command, body=BODY, **query):
    return service.client.post("/v1/tasks/upload", params={"command": command, **query}, content=body, headers=JSON)


def test_a_large_payload_of_a_producer_reaches_the_worker(service, command):
    answer = enqueue_large(service, command, priority=3, maxAttempts=2)
    assert answer.status_code == 202, answer.text
    claimed = service.claim(command)
    task = claimed["task"]
    assert (task["id"], task["priority"], task["maxAttempts"]) == (answer.json()["taskId"], 3, 2)
    assert (task["payload"], task["payloadRef"]["size"]) == (None, len(BODY))
    path, token = f"/v1/tasks/{task['id']}/payload", {"lease-token": claimed["leaseToken"]}
    assert service.client.get(path, headers=token).content == BODY
    part = service.client.get(path, headers={**token, "range": "bytes=0-7"})
    assert (part.status_code, part.content) == (206, BODY[:8])
    assert service.client.get(path, headers={"lease-token": "1.x"}).json()["code"] == "lease_mismatch"
    assert service.settle("result", claimed, status="COMPLETED").status_code == 200
    assert service.client.get(path, headers=token).json()["code"] == "not_in_progress"


def test_a_small_payload_is_read_in_the_same_way(service, command):
    service.enqueue(command, payload=[1, 2])
    claimed = service.claim(command)
    token = {"lease-token": claimed["leaseToken"]}
    assert claimed["task"]["payloadRef"] is None
    assert service.client.get(f"/v1/tasks/{claimed['task']['id']}/payload", headers=token).json() == [1, 2]


def test_an_idempotency_key_covers_the_bytes(service, command):
    first = enqueue_large(service, command, idempotencyKey="k").json()
    again = enqueue_large(service, command, idempotencyKey="k")
    assert again.json() == {**first, "existed": True}
    other = enqueue_large(service, command, b"[]", idempotencyKey="k")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    assert len(files_of(service)) == 1
    assert read_usage(service.store)[0] == Usage(count=1, total_bytes=len(BODY))


def test_a_payload_that_cannot_be_taken_is_refused(service, command):
    assert service.client.post("/v1/tasks/upload", content=b"1", headers=JSON).status_code == 400
    assert enqueue_large(service, command, priority=10).status_code == 400
    assert enqueue_large(service, command, payload="1").status_code == 400
    text = service.client.post("/v1/tasks/upload", params={"command": command}, content=b"1")
    assert text.status_code == 415
    wrong = service.client.post(
        "/v1/tasks/upload",
        params={"command": command},
        content=b"1",
        headers={**JSON, "content-digest": "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"},
    )
    assert (wrong.status_code, wrong.json()["code"]) == (422, "digest_mismatch")
    assert service.store.counts() == []
    assert files_of(service) == []


def test_a_handler_gets_a_large_payload_from_the_service_and_from_python(service, app, command):
    seen = []

    @app.handler(command)
    def handle(payload):
        seen.append(len(payload["text"]))
        return len(payload["text"])

    enqueue_large(service, command)
    handle.enqueue(LARGE)
    handle.enqueue({"text": "small"})
    worker = app.worker()
    try:
        assert [worker.process_once().status for _ in range(3)] == ["acked"] * 3
    finally:
        worker.close()
    assert seen == [3 << 20, 3 << 20, 5]
    assert len(files_of(service)) == 2


def test_a_child_process_loads_a_large_payload(app, command):
    @app.handler(command)
    def handle(payload, ctx):
        return [len(payload["text"]), ctx.job.payload == payload, os.getpid()]

    job = handle.enqueue(LARGE)
    app.worker(processes=1, until_drained=True).run()
    size, is_same, pid = app.client.result(job.id)
    assert (size, is_same) == (3 << 20, True)
    assert pid != os.getpid()


def test_a_payload_that_was_changed_is_a_dead_letter(service, app, command):
    app.handler(command)(lambda _: None)
    job = app.enqueue(command, LARGE)
    [file] = files_of(service)
    file.write_bytes(BODY[:-1] + b" ")
    assert app.worker().process_once().status == "rejected"
    record = app.client.get(job.id)
    assert record.dead_reason == "bad payload"


def test_a_payload_that_is_not_there_is_tried_again(service, app, command):
    app.handler(command)(lambda _: None)
    job = app.enqueue(command, LARGE)
    [file] = files_of(service)
    file.unlink()
    assert app.worker().process_once().status == "retried"
    assert "artifacts" in app.client.get(job.id).last_error


def test_without_a_folder_a_large_payload_is_refused_and_not_read(tmp_path, command):
    with holdfast.connect(sqlite_url(tmp_path)) as store, pytest.raises(PayloadError):
        holdfast.Client(store).enqueue(holdfast.JobRequest(type=command, payload=LARGE))
    folder = Settings(url=sqlite_url(tmp_path), artifacts=str(tmp_path / "artifacts"))
    apps = [Holdfast(), Holdfast()]
    for app, settings in zip(apps, (folder, Settings(url=sqlite_url(tmp_path))), strict=True):
        app.use_settings(settings)
        app.handler(command)(lambda _: None)
    apps[0].enqueue(command, LARGE)
    assert apps[1].worker().process_once().status == "retried"
    for app in apps:
        app.close()


def test_a_large_payload_is_refused_in_a_transaction_of_the_caller(app, command, tmp_path):
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, pytest.raises(PayloadError):
        app.enqueue(command, LARGE, connection=connection)


def test_the_payload_stays_while_artifacts_come(service, command):
    enqueue_large(service, command)
    claimed = service.claim(command)
    assert upload(service, claimed, "a").status_code == 201
    answer = service.client.get(
        f"/v1/tasks/{claimed['task']['id']}/payload", headers={"lease-token": claimed["leaseToken"]}
    )
    assert answer.content == BODY
