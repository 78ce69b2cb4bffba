"""The runner: what it sends at a time, and what it does when a receiver or the store does not answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast import connect
from holdfast.clock import SECOND, ManualClock
from holdfast.driver import Change, JobRecord
from holdfast.drivers import requests
from holdfast.drivers.answers import QueueCounts
from holdfast.drivers.requests import Cancel, Write
from holdfast.errors import StoreUnavailable
from holdfast.model.retry import Fixed
from holdfast.settings import Settings
from holdfast.webhooks import attempt, deliveries, senders
from holdfast.webhooks.attempt import delivery_rules
from holdfast.webhooks.delivery import QUEUE, Delivery, callback_record
from holdfast.webhooks.runner import WebhookRunner
from holdfast.webhooks.secrets import WebhookSecrets
from holdfast.webhooks.senders import Senders
from holdfast.webhooks.subscription import KIND
from tests.waiting import wait_until
from tests.webhook_receiver import SECRET, receiving

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


def end(store, url, *ids):
    common = {"type": "t", "queue": "q", "payload": b"1", "created_at": 1, "webhook": f"{url}/"}
    store.enqueue([JobRecord(id=id_, **common) for id_ in ids])
    store.do(Cancel(job_ids=ids))


def test_a_host_that_does_not_answer_does_not_hold_up_the_others(store, start, monkeypatch):
    monkeypatch.setattr(Senders.__init__, "__defaults__", (4,))
    monkeypatch.setattr(deliveries, "MAX_PER_HOST", 1)
    answers = threading.Event()
    with receiving(lambda _: 204 if answers.wait(60) else 500) as slow, receiving(host=OTHER) as quick:
        networks = (*slow.settings.networks, f"{OTHER}/32")
        end(store, slow.url, *(f"slow-{number}" for number in range(5)))
        end(store, quick.url, *(f"quick-{number}" for number in range(5)))
        start(replace(slow.settings, urls=(f"{slow.url}/", f"{quick.url}/"), networks=networks))
        for number in range(5):
            quick.await_callback(f"quick-{number}")
        assert len(slow.received) == 1
        answers.set()
        for number in range(5):
            slow.await_callback(f"slow-{number}")
    assert store.do(requests.Settings(queue=QUEUE)).key_max_inflight == 1


class SilentHost:
    """Accepts connections and never answers."""

    def __init__(self, address):
        self.name = address
        self._socket = socket.create_server((address, 0), backlog=64)
        self.url = f"http://{address}:{self._socket.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self.accepted = 0
        self.most_open = 0
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                connection.setblocking(False)
                self._open = [one for one in self._open if not self._has_ended(one)] + [connection]
                self.most_open = max(self.most_open, len(self._open))
                self.accepted += 1

    @staticmethod
    def _has_ended(connection):
        """Whether the client has closed the connection: before it opened the next one, if it opens one at a time."""
        try:
            while connection.recv(65536):
                pass
        except BlockingIOError:
            return False
        connection.close()
        return True

    def close(self):
        """End the connections: the requests under way fail at once."""
        with contextlib.suppress(OSError):  # closed already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for connection in self._open:
            connection.close()


@pytest.fixture
def silent():
    """Two hosts that accept connections and never answer."""
    hosts = [SilentHost(f"127.0.0.{number}") for number in (4, 5)]
    yield hosts
    for host in hosts:
        host.close()


def allow(receiver, hosts):
    urls = tuple(f"{host.url}/" for host in (receiver, *hosts))
    return replace(receiver.settings, urls=urls, networks=("127.0.0.0/29",))


def test_silent_hosts_hold_up_neither_their_own_tenant_nor_another_one(tmp_path, silent):
    (tmp_path / "secrets.toml").write_text(f'acme = ["{SECRET}"]\n')
    with connect(f"sqlite:///{tmp_path}/jobs.db") as store, receiving() as good:
        for host in silent:
            end(store, host.url, *(f"{host.name}-{number}" for number in range(100)))
        webhooks = replace(allow(good, silent), secrets_file=str(tmp_path / "secrets.toml"))
        runner = WebhookRunner(store, Settings(webhooks=webhooks), space="main", name="test", all_spaces=True)
        runner.start()
        try:
            wait_until(lambda: all(host.accepted for host in silent))
            for number in range(5):
                end(store, good.url, f"own-{number}")
                end(store.space("acme"), good.url, f"other-{number}")
                good.await_callback(f"own-{number}")
                good.await_callback(f"other-{number}")
        finally:
            for host in silent:
                host.close()
            runner.stop()
    assert [host.most_open for host in silent] == [1, 1]


def test_a_host_that_has_timed_out_is_probed_by_one_request_at_a_time(store, start, silent, monkeypatch):
    monkeypatch.setattr(senders, "QUICK_SECONDS", 0.1)
    for module in (senders, deliveries):
        monkeypatch.setattr(module, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(attempt, "BACKOFF", Fixed(timedelta(seconds=0.2)))
    monkeypatch.setattr(
        "holdfast.webhooks.runner.delivery_rules",
        lambda settings: replace(delivery_rules(settings), read_timeout=timedelta(seconds=0.3)),
    )
    [host, _] = silent
    with receiving() as good:
        end(store, host.url, *(f"silent-{number}" for number in range(40)))
        start(allow(good, silent))
        wait_until(lambda: host.accepted >= 2)
        end(store, good.url, "good")
        good.await_callback("good")
        wait_until(lambda: host.accepted >= 3)
        host.close()
    assert host.most_open == 1


def test_a_stop_gives_back_the_callbacks_that_have_not_begun(store, start, silent, monkeypatch):
    monkeypatch.setattr(senders, "STOP_SECONDS", 0.0)
    [host, _] = silent
    with receiving() as good:
        end(store, host.url, *(f"silent-{number}" for number in range(20)))
        runner = start(allow(good, silent))
        wait_until(lambda: host.accepted and _count(store).inflight == deliveries.MAX_PER_HOST)
        runner.stop()
        assert (_count(store).inflight, _count(store).ready) == (1, 19)  # one request is under way
        host.close()
        wait_until(lambda: not _count(store).inflight)


def test_a_callback_whose_lease_expires_while_it_waits_is_left_to_others():
    clock = ManualClock()
    with connect("memory://", clock=clock) as store, receiving() as good:
        one = callback_record(Delivery(id="msg_1", url=good.url, body="{}"), key="k", now=1)
        store.enqueue([one])
        waiting = Senders()  # they are not started
        found = deliveries.Deliveries(
            store,
            space="main",
            name="test",
            secrets=WebhookSecrets(good.settings, space="main"),
            rules=delivery_rules(good.settings),
            verification=None,
            senders=waiting,
            clock=clock,
            on_sent=lambda: None,
        )
        found.reserve_due()
        clock.advance(2 * deliveries.LEASE_SECONDS * SECOND)
        found.beat()
        [[task]] = waiting._waiting.values()
        assert task() is False
        found.reserve_due()
        [[_, task]] = waiting._waiting.values()
        assert task() is True
        assert len(good.received) == 1


def _count(store):
    found = [one for one in store.counts([QUEUE]) if one.queue == QUEUE]
    return found[0] if found else QueueCounts(queue=QUEUE, type="")


def test_a_store_that_does_not_answer_is_asked_again_and_logged_once(store, start, monkeypatch, caplog):
    ledger = store.ledger

    def fail(*_):
        raise StoreUnavailable("memory", "gone")

    monkeypatch.setattr(store, "ledger", fail)
    with receiving() as receiver:
        end(store, receiver.url, "a")
        runner = start(receiver.settings)
        wait_until(lambda: "webhook.paused" in caplog.text)
        runner.wake()
        monkeypatch.setattr(store, "ledger", ledger)
        receiver.await_callback("a")
    assert caplog.text.count("webhook.paused") == 1


def test_a_subscription_that_cannot_be_read_does_not_hold_up_callbacks(store, start, caplog):
    store.do(Write(changes=[Change(kind=KIND, key="x", value=b"of a later version")]))
    with receiving() as receiver:
        end(store, receiver.url, "a")
        start(receiver.settings)
        receiver.await_callback("a")
    assert "webhook.paused" in caplog.text


def test_without_a_secret_nothing_runs(store, start):
    with receiving() as receiver:
        runner = start(replace(receiver.settings, secret=None))
    assert not runner.is_needed
    assert [thread.name for thread in threading.enumerate() if thread.name == "holdfast-webhooks"] == []
