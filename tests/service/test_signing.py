"""Signed jobs: the service signs what it stores, and hands out only what is signed."""

from __future__ import annotations

import pytest

from holdfast.driver import JobRecord
from holdfast.model.secret import Secret
from holdfast.settings import Settings, SigningMode
from holdfast.signing import open_signer
from holdfast.wire.signing import Verdict
from tests.service.http_service import running_service, sqlite_url

SETTINGS = Settings(signing=SigningMode.REQUIRED, signing_key=Secret("a secret of at least 16 bytes"))


@pytest.fixture(scope="module")
def signing_service(tmp_path_factory):
    with running_service(sqlite_url(tmp_path_factory.mktemp("signing")), SETTINGS) as running:
        yield running


def test_a_task_is_signed_when_it_is_stored(signing_service, command):
    task_id = signing_service.enqueue(command, payload=1, queue="signed")
    many = signing_service.post("/v1/tasks/batch", {"tasks": [{"command": command, "queue": "signed"}]}).json()
    signer = open_signer(SETTINGS)
    for stored in (task_id, many["tasks"][0]["taskId"]):
        assert signer.verify(signing_service.store.get(stored)) is Verdict.VALID
    assert signing_service.claim(command, queues=["signed"])["task"]["id"] == task_id


def test_a_task_without_a_signature_is_handed_out_to_nobody(signing_service, command):
    forged = JobRecord(id=f"forged-{command}", type=command, queue="default", payload=b"1", created_at=1)
    signing_service.store.enqueue([forged])
    signed = signing_service.enqueue(command)
    assert signing_service.claim(command, waitSeconds=50)["task"]["id"] == signed
    task = signing_service.get(f"/v1/tasks/{forged.id}").json()
    assert (task["status"], task["reason"]) == ("FAILED", "bad signature")


def test_a_task_whose_signature_cannot_be_verified_is_handed_out_to_nobody(signing_service, command, monkeypatch):
    """The worker's check may come to other outcomes than those that the service knows."""
    tenant = signing_service.service.tenant("main")
    task_id = signing_service.enqueue(command)
    monkeypatch.setattr(tenant._verification, "check", lambda _job: object())
    assert signing_service.post("/v1/tasks/claim", {"commands": [command]}).status_code == 204
    task = signing_service.get(f"/v1/tasks/{task_id}").json()
    assert (task["status"], task["attempts"]) == ("DELAYED", 0)
