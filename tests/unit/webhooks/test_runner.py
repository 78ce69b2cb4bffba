"""The runner: what it sends at a time, and what it does when a receiver or the store does not answer."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from holdfast import connect
from holdfast.driver import Change, JobRecord
from holdfast.errors import StoreUnavailable
from holdfast.settings import Settings
from holdfast.webhooks import deliveries
from holdfast.webhooks.delivery import QUEUE
from holdfast.webhooks.runner import WebhookRunner
from holdfast.webhooks.senders import Senders
from holdfast.webhooks.subscription import KIND
from tests.waiting import wait_until
from tests.webhook_receiver import receiving

OTHER = "127.0.0.3"


@pytest.fixture
def store():
    with connect("memory://") as opened:
        yield opened


@pytest.fixture
def start(store):
    """Start a runner; it is stopped at the end of the test."""
    started = []

    def run(webhooks):
        runner = WebhookRunner(store, Settings(webhooks=webhooks), space="main", name="test")
        started.append(runner)
        runner.start()
        return runner

    yield run
    for runner in started:
        runner.stop()


def end(store, id_, url):
    store.enqueue([JobRecord(id=id_, type="t", queue="q", payload=b"1", created_at=1, webhook=f"{url}/")])
    store.cancel([id_])


def test_a_host_that_does_not_answer_does_not_hold_up_the_others(store, start, monkeypatch):
    monkeypatch.setattr(Senders.__init__, "__defaults__", (2,))
    monkeypatch.setattr(deliveries, "MAX_PER_HOST", 1)
    answers = threading.Event()
    with receiving(lambda _: 204 if answers.wait(60) else 500) as slow, receiving(host=OTHER) as quick:
        networks = (*slow.settings.networks, f"{OTHER}/32")
        for number in range(5):
            end(store, f"slow-{number}", slow.url)
        for number in range(5):
            end(store, f"quick-{number}", quick.url)
        start(replace(slow.settings, urls=(f"{slow.url}/", f"{quick.url}/"), networks=networks))
        for number in range(5):
            quick.await_callback(f"quick-{number}")
        assert len(slow.received) == 1
        answers.set()
        for number in range(5):
            slow.await_callback(f"slow-{number}")
    assert store.settings(QUEUE).key_max_inflight == 1


def test_a_store_that_does_not_answer_is_asked_again_and_logged_once(store, start, monkeypatch, caplog):
    ledger = store.ledger

    def fail(*_):
        raise StoreUnavailable("memory", "gone")

    monkeypatch.setattr(store, "ledger", fail)
    with receiving() as receiver:
        end(store, "a", receiver.url)
        runner = start(receiver.settings)
        wait_until(lambda: "webhook.paused" in caplog.text)
        runner.wake()
        monkeypatch.setattr(store, "ledger", ledger)
        receiver.await_callback("a")
    assert caplog.text.count("webhook.paused") == 1


def test_a_subscription_that_cannot_be_read_does_not_hold_up_callbacks(store, start, caplog):
    store.write([Change(kind=KIND, key="x", value=b"of a later version")])
    with receiving() as receiver:
        end(store, "a", receiver.url)
        start(receiver.settings)
        receiver.await_callback("a")
    assert "webhook.paused" in caplog.text


def test_without_a_secret_nothing_runs(store, start):
    with receiving() as receiver:
        runner = start(replace(receiver.settings, secret=None))
    assert not runner.is_needed
    assert [thread.name for thread in threading.enumerate() if thread.name == "holdfast-webhooks"] == []
