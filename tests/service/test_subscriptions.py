"""Subscriptions of workers over the service, and the notifications that they get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.service.routes import subscriptions
from holdfast.settings import Settings
from holdfast.settings.serve import AuthMode
from tests.service.http_service import RunningService, running_service, sqlite_url
from tests.waiting import wait_until
from tests.webhook_receiver import Receiver, receiving

TOKENS = """
[[tokens]]
token = "token-of-a-worker"
subject = "worker"
scopes = ["subscribe", "claim"]
event_types = ["allowed"]
worker_group = "mine"

[[tokens]]
token = "token-of-another-one"
subject = "other"
scopes = ["subscribe"]

[[tokens]]
token = "token-of-an-operator"
subject = "operator"
admin = true

[[tokens]]
token = "token-of-a-producer"
subject = "producer"
scopes = ["enqueue"]
"""
PATH = "/v1/workers/subscriptions"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def service(request, receiver, tmp_path_factory) -> Iterator[RunningService]:
    if request.param == "sqlite":
        url = sqlite_url(tmp_path_factory.mktemp("service"))
    else:
        url = request.getfixturevalue("postgres_database")()
    with running_service(url, Settings(webhooks=receiver.settings)) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(receiver, tmp_path_factory) -> Iterator[RunningService]:
    """A service with tokens."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "tokens.toml").write_text(TOKENS)
    with running_service(
        sqlite_url(folder),
        Settings(webhooks=receiver.settings),
        auth=(AuthMode.STATIC,),
        tokens_file=str(folder / "tokens.toml"),
        public_url="https://queue.example.org",
    ) as running:
        yield running


def test_a_subscription_goes_on_with_heartbeats_and_ends_by_a_delete(service, receiver, command):
    body = {"callbackUrl": f"{receiver.url}/", "eventTypes": [command], "ttlSeconds": 100}
    one = service.post(PATH, body).json()
    path = f"{PATH}/{one['subscriptionId']}"
    beaten = service.client.post(f"{path}/heartbeat")
    assert beaten.status_code == 200
    assert beaten.json()["expiresAt"] > one["expiresAt"]
    assert one["deliveryMode"] == "fanout"
    assert one["subscriptionId"] in {each["subscriptionId"] for each in service.get(PATH).json()["subscriptions"]}
    assert service.client.delete(path).status_code == 204
    for answer in (
        service.client.delete(path),
        service.client.post(f"{path}/heartbeat"),
        service.client.post(f"{PATH}/x/heartbeat"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_hash_tells_every_task_also_while_one_subscriber_is_down(service, receiver, command, monkeypatch):
    monkeypatch.setattr(receiver, "respond", lambda one: 503 if one.path == "/down" else 204)
    for path in ("up", "down"):
        body = {"callbackUrl": f"{receiver.url}/{path}", "eventTypes": [command], "deliveryMode": "hash"}
        body["minIntervalSeconds"] = 0.1
        assert service.post(PATH, body).status_code == 201
    tasks = {service.enqueue(command) for _ in range(40)}

    def told():
        bodies = [one.body for one in list(receiver.received) if one.path == "/up"]
        return {id_ for body in bodies if body["eventType"] == command for id_ in body["taskIds"]}

    assert wait_until(lambda: told() == tasks)


def test_heartbeats_that_meet_are_all_answered_and_a_delete_among_them_ends_the_subscription(
    service, receiver, command
):
    body = {"callbackUrl": f"{receiver.url}/", "eventTypes": [command], "ttlSeconds": 100}
    path = f"{PATH}/{service.post(PATH, body).json()['subscriptionId']}"
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: service.client.post(f"{path}/heartbeat"), range(160)))
        assert Counter(one.status_code for one in answers) == {200: 160}
        beats = threads.map(lambda _: service.client.post(f"{path}/heartbeat"), range(80))
        assert service.client.delete(path).status_code == 204
        assert {one.status_code for one in beats} <= {200, 404}
    assert service.client.post(f"{path}/heartbeat").status_code == 404


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"callbackUrl": "http://169.254.169.254/"}, "callbackUrl"),
        ({"eventTypes": []}, "eventTypes"),
        ({"deliveryMode": "all"}, "deliveryMode"),
        ({"deliveryMode": "group"}, "groupId"),
        ({"minIntervalSeconds": 0}, "minIntervalSeconds"),
        ({"ttlSeconds": 1e9}, "ttlSeconds"),
        ({"queues": ["holdfast.webhooks"]}, "queue"),
    ],
)
def test_what_cannot_be_subscribed_to_is_refused(service, receiver, command, change, field):
    answer = service.post(PATH, {"callbackUrl": f"{receiver.url}/", "eventTypes": [command], **change})
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (400, "invalid_request", field)


def test_the_subscriptions_of_one_subject_are_bounded(guarded, receiver, monkeypatch):
    monkeypatch.setattr(subscriptions, "MAX_OF_SUBJECT", 2)
    body = {"callbackUrl": f"{receiver.url}/", "eventTypes": ["any"]}
    answers = [guarded.post(PATH, body, token="token-of-another-one") for _ in range(3)]
    assert [one.status_code for one in answers] == [201, 201, 429]
    assert (answers[2].json()["code"], answers[2].headers["retry-after"]) == ("rate_limited", "60")
    path = f"{PATH}/{answers[0].json()['subscriptionId']}"
    headers = {"authorization": "Bearer token-of-another-one"}
    assert guarded.client.delete(path, headers=headers).status_code == 204
    assert guarded.post(PATH, body, token="token-of-another-one").status_code == 201
    for one in guarded.get(PATH, token="token-of-another-one").json()["subscriptions"]:
        guarded.client.delete(f"{PATH}/{one['subscriptionId']}", headers=headers)


def test_tokens_bound_what_is_subscribed_to_and_seen(guarded, receiver):
    body = {"callbackUrl": f"{receiver.url}/", "eventTypes": ["allowed"], "deliveryMode": "group"}
    worker, other = "token-of-a-worker", "token-of-another-one"
    refusals = [
        guarded.post(PATH, {**body, "eventTypes": ["allowed", "other"]}, token=worker),
        guarded.post(PATH, {**body, "groupId": "others"}, token=worker),
        guarded.post(PATH, body, token="token-of-a-producer"),
    ]
    assert [(one.status_code, one.json()["code"]) for one in refusals] == [(403, "forbidden")] * 3
    one = guarded.post(PATH, body, token=worker).json()
    assert one["groupId"] == "mine"
    assert guarded.get(PATH, token=other).json() == {"subscriptions": []}
    assert (
        guarded.client.delete(
            f"{PATH}/{one['subscriptionId']}", headers={"authorization": f"Bearer {other}"}
        ).status_code
        == 404
    )
    assert guarded.get(PATH, token="token-of-an-operator").json()["subscriptions"] == [one]
    assert guarded.get(PATH, token=worker).json()["subscriptions"] == [one]
