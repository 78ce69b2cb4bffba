"""The handler ``url``: which answers are success, which are tried again, and which end the job."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime

import pytest

from holdfast import Retry, Unrecoverable
from holdfast.clock import SECOND, to_datetime, wall_clock
from holdfast.drivers.requests import Inspect
from holdfast.errors import InvalidInput, PayloadError, RequestFailed
from holdfast.handlers import UrlRequest
from holdfast.net.guarded import Response
from holdfast.net.retry_after import retry_after
from tests.net.loopback import ALLOWED, answer, serving


@pytest.fixture
def fetch(app, inline):
    """Send one request as a job of an app that allows the server; return its result, or raise."""

    def run(server, method: str = "GET", **options):
        address = f"http://{ALLOWED}:{server.port}"
        task = app.builtin.url(allowed=[address], allowed_networks=[ALLOWED], **options)
        return inline.run_job(task, UrlRequest(url=f"{address}/hook", method=method))

    return run


def test_the_answer_is_the_result(fetch):
    with serving(answer(b"h\xc3\xa9\xff", headers="X-One: 1\r\nX-One: 2\r\n")) as server:
        result = fetch(server)
    assert (result.status, result.body, result.truncated) == (200, "hé\ufffd", False)
    assert result.headers["x-one"] == "1, 2"


def test_without_settings_every_url_is_denied(app, run):
    with serving(answer()) as server:
        address = f"http://{ALLOWED}:{server.port}"
        url = app.builtin.url()
        status, record = run(url, UrlRequest(url=address))
        assert (status, record.dead_reason) == ("dead", f"not allowed: no pattern of allowed_urls matches {address}/")
        app.use_settings(replace(app.settings, allowed_urls=(address,)))
        status, record = run(url, UrlRequest(url=address))
        assert (status, record.dead_reason) == (
            "dead",
            f"not allowed: {ALLOWED} has the address {ALLOWED}, which is denied: loopback",
        )
        assert server.connections == 0
        app.use_settings(replace(app.settings, allowed_networks=(ALLOWED,)))
        assert run(url, UrlRequest(url=address))[0] == "acked"


@pytest.mark.parametrize("status", ["408 Timeout", "429 Too Many Requests", "500 Error", "503 Unavailable", "599 X"])
def test_a_status_that_says_later_is_a_failed_attempt(fetch, status):
    with serving(answer(b"busy", status=status)) as server, pytest.raises(Retry) as retry:
        fetch(server)
    assert (retry.value.after, retry.value.reason) == (None, f"status {status[:3]}: busy")


def test_retry_after_is_the_delay_of_the_next_attempt(app, inline, clock):
    with serving(answer(status="429 Too Many Requests", headers="Retry-After: 120\r\n")) as server:
        address = f"http://{ALLOWED}:{server.port}"
        url = app.builtin.url(allowed=[address], allowed_networks=[ALLOWED])
        job = url.enqueue(UrlRequest(url=address))
        assert inline.drain() == {"retried": 1}
        assert app.driver.do(Inspect(job_ids=[job.id]))[job.id].available_at == clock.now() + 120 * SECOND


def test_retry_after_of_a_busy_server_pauses_all_jobs_of_the_host(app, inline, clock):
    with serving(answer(status="503 Unavailable", headers="Retry-After: 120\r\n")) as server:
        address = f"http://{ALLOWED}:{server.port}"
        url = app.builtin.url(allowed=[address], allowed_networks=[ALLOWED])
        first, second = url.enqueue_many([UrlRequest(url=f"{address}/1"), UrlRequest(url=f"{address}/2")])
        other = url.enqueue(UrlRequest(url="http://other.example/"))
        keys = [app.driver.get(job.id).limit_key for job in (first, second, other)]
        assert keys == [ALLOWED, ALLOWED, "other.example"]
        assert inline.drain() == {"retried": 1, "dead": 1}
        assert app.driver.get(second.id).attempts == 0
        clock.advance(120 * SECOND)
        assert app.driver.reserve(["default"], limit=9, lease_for=SECOND, worker="w")[0].job.id == second.id


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://Example.ORG:8443/x", "example.org"),
        ("http://[::1]/", "::1"),
        ("http://", None),
        ("no url", None),
        ("http://[broken/", None),
        (f"http://{'a' * 300}/", None),
        ("http://b\u00fccher.example/", None),
    ],
)
def test_the_limit_key_of_a_request_is_its_host(app, address, host):
    url = app.builtin.url(allowed=["https://*"])
    assert url.request(UrlRequest(url=address)).limit_key == host


def test_retry_after_is_seconds_or_a_date_and_at_most_a_day():
    def delay(value: str) -> timedelta | None:
        return retry_after(Response(status=429, headers=(("retry-after", value),), body=b""))

    now = to_datetime(wall_clock())
    assert delay(" 7 ") == timedelta(seconds=7)
    assert delay("99999999999") == timedelta(days=1)
    assert timedelta(minutes=50) < delay(format_datetime(now + timedelta(hours=1))) <= timedelta(hours=1)
    assert delay(format_datetime(now - timedelta(hours=1))) == timedelta(0)
    assert [delay(value) for value in ("", "-1", "1.5", "soon", "٣")] == [None] * 5
    assert retry_after(Response(status=429, headers=(), body=b"")) is None


@pytest.mark.parametrize("status", ["400 Bad", "401 Unauthorized", "404 Not Found", "302 Found", "304 Not Modified"])
def test_another_status_ends_the_job(fetch, status):
    with serving(answer(b"", status=status)) as server, pytest.raises(Unrecoverable, match=f"status {status[:3]}"):
        fetch(server)


def test_statuses_can_be_configured(app, fetch, inline):
    with serving(answer(status="404 Not Found")) as server:
        assert fetch(server, accepted_statuses=[404]).status == 404
        with pytest.raises(Retry):
            fetch(server, type="patient", retried_statuses=[404])


def test_a_server_that_is_gone_is_a_failed_attempt(fetch):
    with serving(answer()) as server:
        pass
    with pytest.raises(RequestFailed):
        fetch(server)


@pytest.mark.parametrize(("method", "has_key"), [("POST", True), ("PATCH", True), ("GET", False), ("PUT", False)])
def test_a_request_that_is_not_idempotent_carries_the_id_of_the_job(app, inline, fetch, method, has_key):
    with serving(answer()) as server:
        fetch(server, method)
        [request] = server.requests
    assert (b"idempotency-key: " in request) == has_key


def test_a_long_answer_is_cut(fetch):
    with serving(answer(b"x" * 5000)) as server:
        result = fetch(server, max_body_bytes=100)
    assert (result.body, result.truncated) == ("x" * 100, True)


@pytest.mark.parametrize(
    "options",
    [
        {"allowed": ["example.org"]},
        {"allowed": "https://example.org"},
        {"allowed_networks": ["10.0.0.1/8"]},
        {"methods": ["TRACE"]},
        {"headers": ["Host"]},
        {"max_body_bytes": 1 << 30},
        {"total_timeout": timedelta(0)},
    ],
    ids=str,
)
def test_wrong_options_are_refused_where_they_are_written(app, options):
    with pytest.raises(InvalidInput):
        app.builtin.url(**options)


def test_a_payload_that_is_no_request_is_refused(app):
    with pytest.raises(PayloadError):
        app.builtin.url().enqueue({"address": "https://example.org"})
