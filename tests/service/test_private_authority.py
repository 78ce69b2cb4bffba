"""Issuers and receivers whose certificates a private authority has issued."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast import connect
from holdfast.drivers.requests import Cancel
from holdfast.errors import InvalidInput
from holdfast.service.service import Service
from holdfast.settings import Settings
from holdfast.settings.serve import AuthMode, ServeSettings
from holdfast.settings.webhooks import WebhookSettings
from tests.private_authority import make_authority
from tests.service.http_service import running_service, sqlite_url
from tests.service.issuer import AUDIENCE, ISSUER, claims, issuer, sign
from tests.webhook_receiver import ALLOWED, SECRET, receiving


def test_the_issuer_and_the_receivers_may_have_certificates_of_a_private_authority(tmp_path):
    authority = make_authority(tmp_path, "127.0.0.1", ALLOWED)
    serve = {"auth": (AuthMode.JWKS,), "issuer": ISSUER, "audience": AUDIENCE}
    token = sign(claims(scope="enqueue"))
    with receiving(tls=authority.context) as receiver, issuer(tls=authority.context) as keys:
        settings = Settings(webhooks=replace(receiver.settings, ca_file=authority.ca_file))
        serve["jwks_url"] = keys.url
        with running_service(sqlite_url(tmp_path), settings, **serve, ca_file=authority.ca_file) as service:
            task = {"command": "mail.send", "webhook": f"{receiver.url}/done"}
            created = service.post("/v1/tasks", task, token=token)
            assert created.status_code == 202, created.text
            task_id = created.json()["taskId"]
            service.store.do(Cancel(job_ids=[task_id]))
            assert receiver.await_callback(task_id).is_signed_with(SECRET)
        with running_service(sqlite_url(tmp_path), **serve) as service:  # trusts the authorities of the system only
            refused = service.post("/v1/tasks", task, token=token)
            assert (refused.status_code, refused.json()["code"]) == (503, "auth_unavailable")


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_certificates_refuses_to_start(tmp_path, content):
    file = tmp_path / "authority.pem"
    if content is not None:
        file.write_text(content)
    serve = ServeSettings(auth=(AuthMode.JWKS,), jwks_url="https://a/", issuer="a", audience="b", ca_file=str(file))
    with connect(sqlite_url(tmp_path)) as store:
        with pytest.raises(InvalidInput, match="serve_ca_file: wanted a file with PEM certificates"):
            Service(store, Settings(serve=serve), space="main")
        with pytest.raises(InvalidInput, match="webhooks_ca_file: wanted a file with PEM certificates"):
            Service(store, Settings(webhooks=WebhookSettings(ca_file=str(file))), space="main")
