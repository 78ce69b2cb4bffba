"""Guarded requests against real servers: what is sent, what is read, and where a request ends."""

from __future__ import annotations

import ipaddress
import socket
import threading
from dataclasses import FrozenInstanceError, replace
from datetime import timedelta

import pytest

from holdfast.errors import InvalidInput, RequestFailed, RequestRefused
from holdfast.net.guarded import FORBIDDEN_HEADERS, Request, Rules, send
from holdfast.net.urls import parse_pattern
from tests.net.loopback import ALLOWED, CERTIFICATE, TIMEOUT_SECONDS, answer, serving, stream

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def rules_for(*patterns: str, **options) -> Rules:
    networks = (ipaddress.ip_network(ALLOWED),)
    urls = tuple(parse_pattern("p", pattern) for pattern in patterns)
    return Rules(allowed_urls=urls, allowed_networks=networks, **options)


def resolve_to_allowed(_host: str, _port: int) -> list[str]:
    return [ALLOWED]


def fetch(server, **options):
    return send(
        Request(url=f"http://{ALLOWED}:{server.port}/"), rules_for(f"http://{ALLOWED}:{server.port}", **options)
    )


def test_a_request_is_sent_as_it_is_described():
    with serving(answer(b"h\xc3\xa9", headers="X-One: 1\r\nX-One: 2\r\n")) as server:
        request = Request(
            url=f"http://Service.test:{server.port}/a/b%20c?q=ü#fragment",
            method="POST",
            headers={"Content-Type": "text/plain", "Authorization": "Bearer t"},
            body=b"body",
        )
        rules = rules_for(f"http://service.test:{server.port}/a")
        response = send(request, rules, resolve=resolve_to_allowed)
        [received] = server.requests
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /a/b%20c?q=%C3%BC HTTP/1.1"
    assert sorted(lines[1:]) == [
        "Accept-Encoding: identity",
        "Connection: close",
        "Content-Length: 4",
        f"Host: service.test:{server.port}",
        "authorization: Bearer t",
        "content-type: text/plain",
    ]
    assert body == b"body"
    assert (response.status, response.body, response.truncated) == (200, b"h\xc3\xa9", False)
    assert [value for name, value in response.headers if name == "x-one"] == ["1", "2"]
    assert (response.header("X-ONE"), response.header("x-two")) == ("1", None)
    with pytest.raises(FrozenInstanceError):
        response.status = 201


def test_without_allowed_urls_nothing_is_sent():
    with serving(answer()) as server:
        for rules in (rules_for(), Rules(), rules_for("https://example.org")):
            with pytest.raises(RequestRefused, match="no pattern of allowed_urls matches"):
                send(Request(url=f"http://{ALLOWED}:{server.port}/"), rules)
        assert server.connections == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "CONNECT"}, "method"),
        ({"method": "TRACE"}, "method"),
        ({"method": "get"}, "method"),
        ({"method": "GET / HTTP/1.1\r\nX: y\r\n\r\nGET"}, "method"),
        ({"headers": {"Host": "example.org"}}, "header"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "header"),
        ({"headers": {"Connection": "keep-alive"}}, "header"),
        ({"headers": {"X-Forwarded-For": "127.0.0.1"}}, "header"),
        ({"headers": {"Metadata-Flavor": "Google"}}, "header"),
        ({"headers": {"X-aws-ec2-metadata-token": "t"}}, "header"),
        ({"headers": {"Accept\r\nHost": "x"}}, "header"),
        ({"headers": {"Accept:": "x"}}, "header"),
        ({"headers": {"": "x"}}, "header"),
        ({"headers": {"Accept": "x\r\nHost: example.org"}}, "control characters"),
        ({"headers": {"Accept": "x\nHost: example.org"}}, "control characters"),
        ({"headers": {"Accept": "x\x00"}}, "control characters"),
        ({"headers": {"Accept": "嘊嘍"}}, "control characters"),  # whose low bytes are LF and CR
        ({"headers": {"Accept": "x" * 9000}}, "too long"),
        ({"headers": {"Accept": "x", "accept": "y"}}, "twice"),
        ({"headers": {f"x-{number}": "" for number in range(51)}}, "more than 50"),
    ],
    ids=ascii,
)
def test_methods_and_headers_that_are_not_allowed_are_refused(change, message):
    with serving(answer()) as server:
        request = replace(Request(url=f"http://{ALLOWED}:{server.port}/"), **change)
        with pytest.raises(RequestRefused, match=message):
            send(request, rules_for(f"http://{ALLOWED}:{server.port}"))
        assert server.connections == 0


@pytest.mark.parametrize("name", sorted(FORBIDDEN_HEADERS))
def test_no_rule_allows_a_header_of_the_connection(name):
    with pytest.raises(InvalidInput, match=name):
        Rules(headers={"accept", name})


def test_no_proxy_of_the_environment_is_used(monkeypatch):
    with serving(answer(b"direct")) as server, serving(answer(b"proxy"), host="127.0.0.1") as proxy:
        for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.port}")
        assert fetch(server).body == b"direct"
        assert proxy.connections == 0


# Answers that do not end, or are not whole -------------------------------------------------------------------


@pytest.mark.parametrize(
    "respond",
    [
        stream(CHUNKED, b"1000\r\n" + b"x" * 4096 + b"\r\n"),
        stream(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 4096),  # without a length
        stream(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b"x" * 4096),
    ],
    ids=["chunks", "until the end", "a long length"],
)
def test_a_body_without_end_is_read_up_to_the_cap(respond):
    with serving(respond) as server:
        response = fetch(server, max_body_bytes=10_000)
    assert (len(response.body), response.truncated) == (10_000, True)


def test_a_body_of_exactly_the_cap_is_whole():
    with serving(answer(b"x" * 10_000)) as server:
        response = fetch(server, max_body_bytes=10_000)
    assert (len(response.body), response.truncated) == (10_000, False)


@pytest.mark.parametrize(
    "respond",
    [
        stream(b"HTTP/1.1 200 OK\r\n", b"X-Name: value\r\n"),  # headers without end
        stream(b"HTTP/1.1 200 OK\r\nX-Name: ", b"x" * 4096),  # a header without end
        stream(b"", b"x" * 4096),  # a status without end
        stream(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),  # never more than 100
        stream(CHUNKED, b"1;x=" + b"x" * 4096),  # an extension of a chunk without end
        stream(CHUNKED + b"0\r\n", b"X-Trailer: value\r\n" * 1000),  # trailers without end
        lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"),
        lambda connection: connection.sendall(CHUNKED + b"zz\r\n"),
        lambda connection: connection.sendall(CHUNKED + b"-5\r\nshort"),
        lambda connection: connection.sendall(CHUNKED + b"10\r\nshort"),
        lambda connection: connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
        lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"),
        lambda _connection: None,
    ],
    ids=[
        "headers",
        "header",
        "status",
        "100",
        "extension",
        "trailers",
        "short",
        "chunk",
        "negative",
        "cut",
        "103",
        "ssh",
        "closed",
    ],
)
def test_an_answer_that_is_not_whole_is_a_failure(respond):
    with serving(respond) as server, pytest.raises(RequestFailed):
        fetch(server)


@pytest.mark.parametrize(
    ("head", "part"),
    [(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b"x"), (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x")],
    ids=["body", "header"],
)
def test_a_slow_answer_ends_at_the_total_time_although_each_part_comes_in_time(head, part):
    with (
        serving(stream(head, part, pause_seconds=0.05)) as server,
        pytest.raises(RequestFailed, match=r"too long|timed out"),
    ):
        fetch(server, total_timeout=timedelta(seconds=1), read_timeout=timedelta(seconds=60))


def test_a_silent_server_ends_at_the_read_time():
    def respond(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        connection.recv(1)  # until the client goes

    with serving(respond) as server, pytest.raises(RequestFailed, match="timed out"):
        fetch(server, read_timeout=timedelta(milliseconds=300))


def test_a_lookup_that_hangs_ends_at_the_connect_time():
    is_over = threading.Event()

    def hang(_host: str, _port: int) -> list[str]:
        is_over.wait(TIMEOUT_SECONDS)
        return [ALLOWED]

    rules = rules_for("http://service.test", connect_timeout=timedelta(milliseconds=100))
    with pytest.raises(RequestFailed, match="the lookup took longer"):
        send(Request(url="http://service.test/"), rules, resolve=hang)
    is_over.set()


def test_a_lookup_that_fails_is_a_failure():
    def fail(_host: str, _port: int) -> list[str]:
        raise OSError("Name or service not known")

    for resolve in (fail, lambda _host, _port: []):
        with pytest.raises(RequestFailed):
            send(Request(url="http://service.test/"), rules_for("http://service.test"), resolve=resolve)


def test_the_next_address_is_tried_when_one_refuses():
    with serving(answer()) as server:
        rules = replace(
            rules_for(f"http://service.test:{server.port}"), allowed_networks=(ipaddress.ip_network("127.0.0.2/31"),)
        )
        request = Request(url=f"http://service.test:{server.port}/")
        assert send(request, rules, resolve=lambda _host, _port: ["127.0.0.3", ALLOWED]).status == 200
        with pytest.raises(RequestFailed, match=r"127\.0\.0\.3: ConnectionRefusedError"):
            send(request, rules, resolve=lambda _host, _port: ["127.0.0.3"])


# TLS ---------------------------------------------------------------------------------------------------------


def test_tls_uses_the_name_of_the_host_and_the_checked_address():
    with serving(answer(b"secret"), tls=True) as server:
        rules = rules_for(f"https://service.test:{server.port}", ca_file=str(CERTIFICATE))
        response = send(Request(url=f"https://service.test:{server.port}/"), rules, resolve=resolve_to_allowed)
        assert (response.body, server.names) == (b"secret", ["service.test"])


@pytest.mark.parametrize(
    ("host", "ca_file"), [("service.test", None), ("other.test", str(CERTIFICATE))], ids=["authority", "name"]
)
def test_a_certificate_that_is_not_valid_ends_the_request_before_it_is_sent(host, ca_file):
    with serving(answer(), tls=True) as server:
        request = Request(url=f"https://{host}:{server.port}/", headers={"Authorization": "Bearer secret"})
        with pytest.raises(RequestFailed, match="the certificate is not valid"):
            send(request, rules_for(f"https://{host}:{server.port}", ca_file=ca_file), resolve=resolve_to_allowed)
        assert server.requests == []


def test_a_server_without_tls_is_a_failure():
    with serving(answer()) as server, pytest.raises(RequestFailed):
        send(
            Request(url=f"https://service.test:{server.port}/"),
            rules_for(f"https://service.test:{server.port}", connect_timeout=timedelta(milliseconds=300)),
            resolve=resolve_to_allowed,
        )
