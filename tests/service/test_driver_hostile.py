"""Hostile calls of the driver: every field of every verb with values that no driver sends. No answer is a 500."""

from __future__ import annotations

import http.client
from contextlib import closing
from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest

from holdfast.drivers.contract import QueueSettings
from holdfast.drivers.remote.verbs import CONTENT_TYPE, MAX_CALL_BYTES, PROTOCOL_VERSION, VERBS, Verb
from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease
from holdfast.model.settlement import Ack
from holdfast.settings import Settings
from tests.service.http_service import running_service, sqlite_url

JOB = JobRecord(id="j", type="t", queue="q", payload=b"1", created_at=1)
LEASE = Lease(job_id="j", token="1.0", fence=1, expires_at=2)
SAMPLES: dict[str, Any] = {
    "jobs": [JOB],
    "queues": ["q"],
    "limit": 1,
    "lease_for": 1_000_000,
    "leases": [LEASE],
    "settlements": [Ack(LEASE)],
    "follow": ["j"],
    "timeout": 0.0,
    "job_id": "j",
    "job_ids": ["j"],
    "digest": "0" * 64,
    "start": 0,
    "stop": 1,
    "types": ["t"],
    "queue": "q",
    "settings": QueueSettings(),
    "domain": "d",
    "every": 10,
    "most": 100,
    "after": None,
    "name": "unused",
    "kind": "kind",
    "keys": ["k"],
    "changes": [],
}
HOSTILE = [
    None,
    True,
    -1,
    2**63,
    -(2**63),
    1.5,
    float("nan"),
    "",
    "a b",
    "\0",
    "a" * 300,
    b"\xff",
    [],
    [None],
    {},
    {"": 1},
]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    url = f"{sqlite_url(folder)}?synchronous=NORMAL"
    with running_service(url, Settings(artifacts=str(folder)), max_wait=timedelta(milliseconds=50)) as running:
        yield running


def send(service, verb: Verb, body: bytes, content_type: str = CONTENT_TYPE) -> httpx.Response:
    return service.client.post(f"/v1/driver{verb.path}", content=body, headers={"content-type": content_type})


@pytest.mark.parametrize("verb", VERBS.values(), ids=lambda verb: verb.name)
def test_no_value_makes_the_service_fail(service, verb):
    known = msgspec.structs.fields(verb.arguments)
    sample = {field.encode_name: SAMPLES[field.name] for field in known if field.required or field.name == "after"}
    statuses = {send(service, verb, msgspec.msgpack.encode(sample)).status_code}
    for field in known:
        for number, value in enumerate(HOSTILE):
            if number % 3 == len(field.name) % 3:  # a third of them for each field
                body = msgspec.msgpack.encode({**sample, field.encode_name: value})
                statuses.add(send(service, verb, body).status_code)
    for body in (b"", b"\x81", b"\xc1", msgspec.msgpack.encode([1]), msgspec.msgpack.encode({**sample, "more": 1})):
        assert send(service, verb, body).status_code == 400
    assert statuses <= {200, 400, 409, 422}


def test_a_call_of_another_kind_is_refused(service):
    verb = VERBS["get"]
    assert send(service, verb, b"{}", "application/json").json()["code"] == "unsupported_media_type"
    other = CONTENT_TYPE.replace(f".v{PROTOCOL_VERSION}+", f".v{PROTOCOL_VERSION + 1}+")
    assert send(service, verb, b"\x80", other).json()["code"] == "unsupported_media_type"
    for path in ("calls/unknown", "calls/purge", "leases/get", "admin/get", "calls/__class__"):
        answer = service.client.post(f"/v1/driver/{path}", content=b"\x80", headers={"content-type": CONTENT_TYPE})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    with closing(http.client.HTTPConnection("127.0.0.1", int(service.url.rpartition(":")[2]))) as connection:
        connection.putrequest("POST", f"/v1/driver{verb.path}")
        connection.putheader("Content-Type", CONTENT_TYPE)
        connection.putheader("Content-Length", str(MAX_CALL_BYTES + 1))
        connection.endheaders()
        assert b"body_too_large" in connection.getresponse().read()
