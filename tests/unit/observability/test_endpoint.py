"""The HTTP endpoint: what it answers, what it refuses, and that it leaves nothing behind."""

import json
import os
import socket
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from holdfast.errors import InvalidInput
from holdfast.observability import endpoint as endpoints
from holdfast.observability.endpoint import Answer, Endpoint, EndpointTiming, parse_address, verdict_route
from holdfast.observability.health import Verdict


@pytest.fixture
def timing():
    return EndpointTiming(poll_seconds=0.01)


@pytest.fixture
def endpoint(timing):
    routes = {
        "/metrics": lambda accept: Answer(f"accept={accept}".encode()),
        "/healthz": verdict_route(Verdict),
        "/readyz": verdict_route(lambda: Verdict(("the worker drains",))),
        "/broken": lambda _: 1 / 0,
    }
    endpoint = Endpoint(("127.0.0.1", 0), routes, timing=timing)
    endpoint.start()
    yield endpoint
    endpoint.close()


def ask(endpoint, path, method="GET"):
    request = urllib.request.Request(endpoint.url + path, method=method, headers={"Accept": "text/x"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_routes_are_answered_and_nothing_else(endpoint, caplog):
    assert ask(endpoint, "/metrics?x=1") == (200, b"accept=text/x")
    assert ask(endpoint, "/metrics", "HEAD") == (200, b"")
    status, body = ask(endpoint, "/healthz")
    assert (status, json.loads(body)) == (200, {"ok": True, "reasons": []})
    status, body = ask(endpoint, "/readyz")
    assert (status, json.loads(body)) == (503, {"ok": False, "reasons": ["the worker drains"]})
    assert ask(endpoint, "/")[0] == 404
    assert ask(endpoint, "/metrics/../../etc/passwd")[0] == 404
    assert ask(endpoint, "/metrics", "POST")[0] == 501
    assert ask(endpoint, "/broken")[0] == 500
    assert "endpoint.failed" in caplog.text


@pytest.mark.parametrize("timing", [EndpointTiming(connection_seconds=0.2, poll_seconds=0.01)], ids=["impatient"])
def test_a_client_that_sends_nothing_is_cut_off_and_delays_no_other(endpoint):
    host, port = endpoint.url.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=30)) as idle:
        idle.sendall(b"GET /metrics HT")
        assert ask(endpoint, "/metrics")[0] == 200
        assert idle.recv(100) == b""


def test_connections_beyond_the_limit_are_closed(endpoint, monkeypatch):
    monkeypatch.setattr(endpoints, "MAX_CONNECTIONS", 1)
    host, port = endpoint.url.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=30)) as first:
        with closing(socket.create_connection((host, int(port)), timeout=30)) as second:
            assert second.recv(100) == b""
        first.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert first.recv(100).startswith(b"HTTP/1.0 200")


def test_a_port_is_free_at_once_and_a_used_one_is_an_error(endpoint):
    ask(endpoint, "/metrics")
    port = int(endpoint.url.rpartition(":")[2])
    with pytest.raises(
        InvalidInput, match=rf"address that is free on this machine, got .*{port}, Address already in use"
    ):
        Endpoint(("127.0.0.1", port), {})
    endpoint.close()
    Endpoint(("127.0.0.1", port), {}).close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_keep_the_port(endpoint):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, str(endpoint._server.socket.fileno()).encode())
        os._exit(0)
    os.close(write)
    with open(read) as answer:  # noqa: PTH123 - a pipe
        assert answer.read() == "-1"  # closed. A connection would not tell: another process may listen there by now
    os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9000", ("127.0.0.1", 9000)),
        (":9000", ("127.0.0.1", 9000)),
        ("0.0.0.0:9000", ("0.0.0.0", 9000)),
        ("[::1]:0", ("::1", 0)),
        ("metrics.local:80", ("metrics.local", 80)),
    ],
)
def test_an_address_without_a_host_is_loopback(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:70000", "host:-1", "::1:9000", "host:٣"])
def test_an_address_that_is_none_is_refused(text):
    with pytest.raises(InvalidInput, match="HOST:PORT"):
        parse_address(text)
