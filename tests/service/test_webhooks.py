"""Callbacks over the service: each end of a task with a webhook reaches its receiver, signed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from holdfast.driver import JobRecord
from holdfast.drivers.requests import Cancel
from holdfast.model.secret import Secret
from holdfast.settings import Settings
from holdfast.webhooks.delivery import QUEUE
from tests.service.artifact_calls import upload
from tests.service.http_service import RunningService, running_service, sqlite_url
from tests.waiting import wait_until
from tests.webhook_receiver import OLD_SECRET, SECRET, Receiver, receiving


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def service(request, receiver, tmp_path_factory) -> Iterator[RunningService]:
    """A service that may call the receiver, in the middle of a rotation of its secret."""
    folder = tmp_path_factory.mktemp("service")
    url = sqlite_url(folder) if request.param == "sqlite" else request.getfixturevalue("postgres_database")()
    webhooks = replace(receiver.settings, secret=Secret(f"{SECRET},{OLD_SECRET}"))
    with running_service(url, Settings(webhooks=webhooks, artifacts=str(folder / "artifacts"))) as running:
        yield running


def test_every_end_of_a_task_is_told_to_its_webhook_with_a_signature(service, receiver, command):
    hook = f"{receiver.url}/hook?key=1"
    done, failed = (service.enqueue(command, webhook=hook) for _ in range(2))
    assert service.settle("result", service.claim(command), status="COMPLETED", result={"n": [1]}).status_code == 200
    service.settle("nack", service.claim(command), delaySeconds=0, reason="busy")
    service.settle("result", service.claim(command), status="FAILED", error="no such address")
    cancelled = service.enqueue(command, webhook=hook)
    service.enqueue(command)
    assert service.client.post(f"/v1/tasks/{cancelled}/cancel").status_code == 200
    answers = {task_id: receiver.await_callback(task_id) for task_id in (done, failed, cancelled)}
    bodies = {task_id: one.body for task_id, one in answers.items()}
    result = service.get(f"/v1/tasks/{done}/result").json()
    assert bodies[done] == {
        "taskId": done,
        "command": command,
        "status": "COMPLETED",
        "result": {"n": [1]},
        "error": None,
        "artifacts": [],
        "attempts": 1,
        "completedAt": result["completedAt"],
    }
    assert [bodies[failed][name] for name in ("status", "result", "error", "attempts")] == [
        "FAILED",
        None,
        "no such address",
        2,
    ]
    assert [bodies[cancelled][name] for name in ("status", "result", "error", "attempts")] == [
        "CANCELLED",
        None,
        None,
        0,
    ]
    for one in answers.values():
        assert one.path == "/hook?key=1"
        assert one.is_signed_with(SECRET)
        assert one.is_signed_with(OLD_SECRET)
    wait_until(lambda: _counts(service)["pending"] + _counts(service)["inProgress"] == 0)
    assert _counts(service)["failed"] == 0


def _counts(service):
    service.service.counter("main")._valid_until = 0.0
    return service.get(f"/v1/queues/{QUEUE}").json()


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED"])
def test_a_callback_has_the_artifacts_that_the_result_has_named(service, receiver, command, status):
    task_id = service.enqueue(command, webhook=f"{receiver.url}/")
    claimed = service.claim(command)
    upload(service, claimed, "report.csv")
    upload(service, claimed, "unnamed")
    service.settle("result", claimed, status=status, artifacts=["report.csv"])
    [artifact] = receiver.await_callback(task_id).body["artifacts"]
    assert artifact["name"] == "report.csv"
    assert [artifact] == service.get(f"/v1/tasks/{task_id}/result").json()["artifacts"]


def test_a_webhook_is_part_of_what_an_idempotency_key_and_a_batch_say(service, receiver, command):
    tasks = [{"command": command, "webhook": f"{receiver.url}/a"}, {"command": command, "webhook": "http://10.0.0.1/"}]
    items = service.post("/v1/tasks/batch", {"tasks": tasks}).json()["tasks"]
    assert "taskId" in items[0]
    assert (items[1]["problem"]["code"], items[1]["problem"]["field"]) == ("invalid_request", "webhook")
    service.settle("result", service.claim(command), status="COMPLETED")
    assert receiver.await_callback(items[0]["taskId"]).body["result"] is None


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "https://example.org/",  # not in webhooks_urls
        "ftp://example.org/",
        "http://user:password@127.0.0.2/",
        "http://[::1]/",
        "http://127.0.0.2\\@example.org/",
        "http://2130706433/",
        "",
    ],
)
def test_a_webhook_that_is_not_allowed_is_refused(service, command, url):
    answer = service.post("/v1/tasks", {"command": command, "webhook": url})
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (400, "invalid_request", "webhook")
    assert service.post("/v1/tasks/claim", {"commands": [command]}).status_code == 204


def test_nobody_makes_or_claims_deliveries_over_http(service, command):
    for path, body in (
        ("/v1/tasks", {"command": command, "queue": QUEUE}),
        ("/v1/tasks/claim", {"queues": [QUEUE]}),
    ):
        answer = service.post(path, body)
        assert (answer.status_code, answer.json()["field"]) == (400, "queue")


def test_the_callbacks_of_a_tenant_are_signed_with_its_own_secret_although_nobody_has_called_for_it(receiver, tmp_path):
    (tmp_path / "secrets.toml").write_text(f'acme = ["{OLD_SECRET}"]\n')
    webhooks = replace(receiver.settings, secrets_file=str(tmp_path / "secrets.toml"))
    with running_service(sqlite_url(tmp_path), Settings(webhooks=webhooks)) as service:
        for space in ("main", "acme", "globex"):  # of the last one there is no secret
            store = service.store.space(space)
            id_ = f"task-of-{space}"
            store.enqueue(
                [JobRecord(id=id_, type="t", queue="q", payload=b"1", created_at=1, webhook=f"{receiver.url}/")]
            )
            store.do(Cancel(job_ids=[id_]))
        callbacks = [receiver.await_callback(f"task-of-{space}") for space in ("main", "acme")]
    assert [one.is_signed_with(SECRET) for one in callbacks] == [True, False]
    assert [one.is_signed_with(OLD_SECRET) for one in callbacks] == [False, True]
    assert receiver.of("task-of-globex") == []
