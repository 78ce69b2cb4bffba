"""Hostile calls of the driver: every field of every verb with values that no driver sends. No answer is a 500."""

from __future__ import annotations

import http.client
from contextlib import closing
from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest

from holdfast.drivers import requests as r
from holdfast.drivers.http.protocol import CONTENT_TYPE, MAX_CALL_BYTES, PROTOCOL_VERSION, VERBS, group_of
from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease
from holdfast.model.queue_settings import QueueSettings
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
    "timeout": 0.0,
    "job_ids": ["j"],
    "types": ["t"],
    "queue": "q",
    "settings": QueueSettings(),
    "domain": "d",
    "every": 10,
    "most": 100,
    "name": "unused",
    "kind": "kind",
    "keys": ["k"],
    "changes": [],
    "where": {},
    "names": ["id"],
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


def send(service, verb: str, body: bytes, content_type: str = CONTENT_TYPE) -> httpx.Response:
    kind = VERBS[verb]
    group = group_of(kind(**sample_of(kind)))
    return service.client.post(f"/v1/driver/{group}/{verb}", content=body, headers={"content-type": content_type})


def sample_of(kind: type[r.Request[Any]]) -> dict[str, Any]:
    """Return a value for every field that a request must have."""
    return {field.name: SAMPLES[field.name] for field in msgspec.structs.fields(kind) if field.required}


def message_of(kind: type[r.Request[Any]], /, **fields: Any) -> bytes:
    """Return a request with these values as it travels, whatever they are."""
    values = {**sample_of(kind), **fields}
    if kind is not r.Enqueue:
        return msgspec.msgpack.encode(values)
    return msgspec.msgpack.encode({"jobs": values["jobs"], "request": {**values, "jobs": []}})


@pytest.mark.parametrize("verb", VERBS)
def test_no_value_makes_the_service_fail(service, verb):
    kind = VERBS[verb]
    statuses = {send(service, verb, message_of(kind)).status_code}
    for field in msgspec.structs.fields(kind):
        for number, value in enumerate(HOSTILE):
            if number % 3 == len(field.name) % 3:  # a third of them for each field
                statuses.add(send(service, verb, message_of(kind, **{field.name: value})).status_code)
    for body in (b"", b"\x81", b"\xc1", msgspec.msgpack.encode([1]), message_of(kind, more=1)):
        assert send(service, verb, body).status_code == 400
    assert statuses <= {200, 400, 404, 409, 422}  # 404: an outage is reported elsewhere


def test_a_caller_brings_no_connection(service):
    """A store joins the transaction of a connection object. A service has none of its callers."""
    for value in ("mine", 1, {}):
        assert send(service, "enqueue", message_of(r.Enqueue, connection=value)).status_code == 400


@pytest.mark.parametrize("space", ["", "a b", "\0", "x" * 300])
def test_a_name_that_is_no_space_is_refused(service, space):
    answer = service.client.post(
        "/v1/driver/calls/ledger_end", params={"space": space}, content=b"\x80", headers={"content-type": CONTENT_TYPE}
    )
    assert answer.status_code == 400


def test_a_call_of_another_kind_is_refused(service):
    verb = "inspect"
    assert send(service, verb, b"{}", "application/json").json()["code"] == "unsupported_media_type"
    other = CONTENT_TYPE.replace(f".v{PROTOCOL_VERSION}+", f".v{PROTOCOL_VERSION + 1}+")
    assert send(service, verb, b"\x80", other).json()["code"] == "unsupported_media_type"
    reported = msgspec.msgpack.encode({"leases": []})
    outage = service.client.post("/v1/driver/calls/reap", content=reported, headers={"content-type": CONTENT_TYPE})
    assert outage.status_code == 404  # a report of an outage is a call of workers with leases
    for path in ("calls/unknown", "calls/purge", "leases/inspect", "admin/inspect", "calls/__class__"):
        answer = service.client.post(
            f"/v1/driver/{path}", content=message_of(r.Inspect, job_ids=["j"]), headers={"content-type": CONTENT_TYPE}
        )
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    with closing(http.client.HTTPConnection("127.0.0.1", int(service.url.rpartition(":")[2]))) as connection:
        connection.putrequest("POST", f"/v1/driver/calls/{verb}")
        connection.putheader("Content-Type", CONTENT_TYPE)
        connection.putheader("Content-Length", str(MAX_CALL_BYTES + 1))
        connection.endheaders()
        assert b"body_too_large" in connection.getresponse().read()
