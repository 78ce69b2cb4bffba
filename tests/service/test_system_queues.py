"""Callbacks of all producers are jobs of a queue of the system: only an operator sees or changes them."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from holdfast import connect
from holdfast.driver import Fail, JobFilter, JobRecord, State
from holdfast.drivers.requests import AnyOpen, Cancel, Domains, Inspect, LedgerTail, ReadTuples, Settings
from holdfast.errors import Unsupported
from holdfast.settings.serve import AuthMode
from holdfast.webhooks.delivery import CALLBACK, QUEUE
from tests.service.http_service import running_service, sqlite_url
from tests.service.test_events import read as read_events

TOKENS = """
[[tokens]]
token = "token-of-a-producer"
subject = "producer"
scopes = ["enqueue", "read", "cancel", "metrics"]

[[tokens]]
token = "token-of-a-worker"
subject = "worker"
scopes = ["claim", "heartbeat", "result", "nack", "abandon", "subscribe"]

[[tokens]]
token = "token-of-a-driver"
subject = "driver"
scopes = ["driver"]

[[tokens]]
token = "token-of-an-operator"
subject = "operator"
admin = true
"""
PRODUCER, WORKER, OPERATOR = "token-of-a-producer", "token-of-a-worker", "token-of-an-operator"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def service(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    (folder / "tokens.toml").write_text(TOKENS)
    url = sqlite_url(folder) if request.param == "sqlite" else request.getfixturevalue("postgres_database")()
    auth = {"auth": (AuthMode.STATIC,), "tokens_file": str(folder / "tokens.toml")}
    with running_service(url, **auth) as running:
        yield running


@pytest.fixture
def callback(service, command):
    """The id of a callback that waits. The service has no secret: nothing sends it."""
    id_ = f"callback-{command}"
    service.store.enqueue([JobRecord(id=id_, type=CALLBACK, queue=QUEUE, payload=b'"the result"', created_at=1)])
    return id_


def cancel(service, task_id, token):
    return service.client.post(f"/v1/tasks/{task_id}/cancel", headers={"authorization": f"Bearer {token}"})


def test_a_producer_can_neither_read_nor_cancel_a_callback(service, callback):
    answers = [
        service.get(f"/v1/tasks/{callback}", token=PRODUCER),
        service.get(f"/v1/tasks/{callback}/result", token=PRODUCER),
        cancel(service, callback, PRODUCER),
    ]
    assert [(one.status_code, one.json()["code"]) for one in answers] == [(404, "not_found")] * 3
    assert service.store.get(callback).state is State.READY
    assert service.get(f"/v1/tasks/{callback}", token=OPERATOR).json()["queue"] == QUEUE
    assert cancel(service, callback, OPERATOR).json()["status"] == "CANCELLED"


def test_a_worker_learns_nothing_of_a_callback_in_flight(service, callback):
    reserved = service.store.reserve([QUEUE], limit=1000, lease_for=60_000_000, worker="worker")
    [lease] = [one.lease for one in reserved if one.job.id == callback]
    for verb, body in (("heartbeat", {}), ("nack", {}), ("abandon", {}), ("result", {"status": "COMPLETED"})):
        answer = service.post(f"/v1/tasks/{callback}/{verb}", {"leaseToken": lease.token, **body}, token=WORKER)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert service.store.get(callback).state is State.INFLIGHT


def test_counts_and_events_do_not_mix_callbacks_in(service, callback, command):
    assert service.get("/v1/autoscale", token=PRODUCER).json()["backlog"] == 0
    answer = service.get("/v1/autoscale", token=PRODUCER, queue=QUEUE)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert service.get("/v1/autoscale", token=OPERATOR, queue=QUEUE).json()["backlog"] > 0
    service.store.enqueue([JobRecord(id=command, type="t", queue="q", payload=b"1", created_at=1)])
    service.store.do(Cancel(job_ids=[callback, command]))
    for token in (PRODUCER, OPERATOR):
        events = read_events(service, token=token, after="oldest", forSeconds=0)
        assert command in {one["data"]["taskId"] for one in events}
        assert QUEUE not in {one["data"]["queue"] for one in events}
    named = read_events(service, token=OPERATOR, after="oldest", forSeconds=0, queue=QUEUE)
    assert callback in {one["data"]["taskId"] for one in named}
    assert service.get("/v1/events", token=PRODUCER, queue=QUEUE).status_code == 403


@pytest.fixture
def driver(service, monkeypatch):
    monkeypatch.setenv("HOLDFAST_TOKEN", "token-of-a-driver")
    with connect(f"http://{urlsplit(service.url).netloc}") as store:
        yield store


def test_a_driver_neither_reads_nor_cancels_callbacks(service, driver, callback, command):
    driver.enqueue([JobRecord(id=command, type="t", queue="mine", payload=b"1", created_at=1)])
    assert driver.get(callback) is None
    assert list(driver.do(Inspect(job_ids=[callback, command]))) == [command]
    found = list(driver.find(limit=1000))
    assert command in {job.id for job in found}
    assert QUEUE not in {job.queue for job in found}
    assert "mine" in {row.queue for row in driver.counts()}
    assert QUEUE not in {row.queue for row in driver.counts()}
    assert driver.do(Cancel(job_ids=[callback, command, callback, "unknown"])) == [None, State.CANCELLED, None, None]
    assert service.store.get(callback).state is State.READY
    for call in (
        lambda: driver.find(JobFilter(queue=QUEUE)),
        lambda: driver.counts([QUEUE]),
        lambda: driver.do(AnyOpen(queues=[QUEUE], types=[CALLBACK])),
        lambda: driver.do(Settings(queue=QUEUE)),
        lambda: driver.do(Domains(queue=QUEUE)),
        lambda: driver.wait([QUEUE], timeout=1.0),
        lambda: driver.reap([QUEUE]),
    ):
        with pytest.raises(Unsupported, match=r"the queue holdfast\.webhooks belongs to the service"):
            call()


def test_the_ledger_of_a_driver_has_callbacks_without_their_texts(service, driver, callback):
    [one] = [one for one in service.store.reserve([QUEUE], limit=1000, lease_for=60_000_000) if one.job.id == callback]
    service.store.settle([Fail(one.lease, reason="gone", error="shop.example.org: status 410", detail="why")])
    for rows in (driver.ledger(limit=10_000), driver.do(LedgerTail(limit=1000))):
        [row] = [row for row in rows if row.job_id == callback]
        assert (row.queue, row.error, row.detail) == (QUEUE, "", "")
    tuples, _ = driver.do(ReadTuples(limit=10_000))
    assert "shop.example.org" not in str(tuples)
    assert len(tuples) == len(service.store.ledger(limit=10_000))
