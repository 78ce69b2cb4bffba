"""One attempt of a delivery: what each answer means, and what is never sent."""

from __future__ import annotations

import json

import pytest

from holdfast.clock import MINUTE, SECOND, wall_clock
from holdfast.driver import Ack, Fail, Lease, Reservation, Retry
from holdfast.errors import RequestRefused
from holdfast.model.webhook_secret import parse_secret
from holdfast.net.guarded import check_url
from holdfast.settings.webhooks import WebhookSettings
from holdfast.webhooks.attempt import attempt, delivery_rules
from holdfast.webhooks.delivery import Delivery, callback_record
from tests.net.loopback import answer, serving
from tests.webhook_receiver import ALLOWED, SECRET

LEASE = Lease(job_id="a", token="1.x", fence=1, expires_at=1)


def rules(*urls):
    return delivery_rules(WebhookSettings(urls=urls, networks=(f"{ALLOWED}/32",)))


def send(url, *, urls):
    delivery = Delivery(id="msg_1", url=url, body='{"taskId": "a"}')
    record = callback_record(delivery, key="k", now=1)
    return attempt(Reservation(job=record, lease=LEASE), rules(*urls), [parse_secret("", SECRET)], wall_clock())


def send_to(respond):
    with serving(respond) as server:
        url = f"http://{ALLOWED}:{server.port}/hook"
        return send(url, urls=(url,)), server


def test_an_accepted_delivery_is_done_and_its_request_is_signed():
    settlement, server = send_to(answer(b"", status="202 Accepted"))
    assert isinstance(settlement, Ack)
    assert json.loads(settlement.result) == {"status": 202}
    [request] = server.requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert body == b'{"taskId": "a"}'
    for name in (
        b"webhook-id: msg_1",
        b"webhook-timestamp: ",
        b"webhook-signature: v1,",
        b"content-type: application/json",
    ):
        assert name in head.lower()


@pytest.mark.parametrize("status", ["500 Broken", "404 Not Found", "302 Found", "429 Busy"])
def test_every_other_answer_is_a_failed_attempt(status):
    settlement, _ = send_to(answer(b"no", status=status))
    assert isinstance(settlement, Retry)
    assert settlement.error == f"status {status[:3]}: no"
    assert 2 * SECOND < settlement.delay <= 5 * SECOND


def test_retry_after_lengthens_the_delay():
    settlement, _ = send_to(answer(status="503 Busy", headers="Retry-After: 120\r\n"))
    assert settlement.delay == 2 * MINUTE


def test_a_receiver_that_is_gone_ends_the_attempts():
    settlement, _ = send_to(answer(b"", status="410 Gone"))
    assert isinstance(settlement, Fail)
    assert (settlement.reason, settlement.error) == ("webhook gone", "status 410")


def test_a_receiver_that_cannot_be_reached_is_a_failed_attempt():
    with serving(answer()) as server:
        url = f"http://{ALLOWED}:{server.port}/"
    assert isinstance(send(url, urls=(url,)), Retry)


HOSTILE = [
    "http://169.254.169.254/latest/meta-data",
    "http://127.0.0.1:6379/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://10.0.0.1/",
    "http://100.64.0.1/",
    "http://0.0.0.0/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
]
ALL = ("http://*/", "http://*:6379/")


@pytest.mark.parametrize("url", HOSTILE)
def test_hostile_addresses_are_refused_when_a_task_names_them_and_at_delivery(url):
    with pytest.raises(RequestRefused, match=r"denied|not match|wanted"):
        check_url(url, rules(*ALL))
    settlement = send(url, urls=ALL)
    assert isinstance(settlement, Fail)
    assert settlement.reason == "webhook not allowed"


@pytest.mark.parametrize(
    "url",
    [
        "http://user:x@example.org/",
        "http://example.org\\@127.0.0.1/",
        "file:///etc/passwd",
        "http://example.org:22/",
        "https://example.org/",
    ],
)
def test_urls_that_no_pattern_allows_are_refused(url):
    with pytest.raises(RequestRefused):
        check_url(url, rules(*ALL))
    assert isinstance(send(url, urls=ALL), Fail)


def test_a_name_that_leads_to_a_denied_address_is_refused_at_delivery():
    check_url("http://localhost/", rules(*ALL))  # a name may lead anywhere: nothing is looked up yet
    settlement = send("http://localhost/", urls=ALL)
    assert isinstance(settlement, Fail)
    assert "loopback" in settlement.error
