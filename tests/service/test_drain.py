"""A service that stops: keep-alive clients learn from an answer that it is the last one, and lose no request."""

from __future__ import annotations

import socket
import time

from holdfast.service.timing import ServiceTiming
from tests.service.http_service import running_service, sqlite_url
from tests.service.test_hostile_requests import HEALTH, POST, is_whole
from tests.waiting import TIMEOUT_SECONDS, wait_until

LINGERING = ServiceTiming(linger_seconds=TIMEOUT_SECONDS)


def read_to_end(connection: socket.socket) -> bytes:
    received = b""
    while part := connection.recv(65536):
        received += part
    return received


def test_answers_of_a_service_that_stops_close_their_connection_and_none_is_lost(tmp_path):
    body = b'{"waitSeconds":50}'
    claim = POST.replace(b"tasks", b"tasks/claim") + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with running_service(sqlite_url(tmp_path), timing=LINGERING) as running:
        host, port = running.url.removeprefix("http://").split(":")
        place = (host, int(port))
        with (
            socket.create_connection(place, timeout=TIMEOUT_SECONDS) as waiting,
            socket.create_connection(place, timeout=TIMEOUT_SECONDS) as idle,
        ):
            idle.sendall(HEALTH)
            first = b""
            while not is_whole(first):
                first += idle.recv(65536)
            assert b"connection: close" not in first.lower()
            waiting.sendall(claim)
            wait_until(lambda: running.service.requests._waiting == 1)
            running.stop()
            answer = read_to_end(waiting).lower()
            assert answer.startswith(b"http/1.1 204")
            assert b"\r\nconnection: close\r\n" in answer
            for path in (b"/healthz", b"/unknown"):
                with socket.create_connection(place, timeout=TIMEOUT_SECONDS) as new:
                    new.sendall(HEALTH.replace(b"/healthz", path))
                    assert b"\r\nconnection: close\r\n" in read_to_end(new).lower()
            idle.sendall(HEALTH)
            answer = read_to_end(idle).lower()
            assert answer.startswith(b"http/1.1 200")
            assert b"\r\nconnection: close\r\n" in answer


def test_a_client_that_reads_slowly_but_steadily_gets_its_whole_answer(tmp_path):
    with running_service(sqlite_url(tmp_path), timing=ServiceTiming(write_seconds=1.5)) as running:
        for _ in range(15):
            running.enqueue("a", payload="x" * 1_000_000)
        host, port = running.url.removeprefix("http://").split(":")
        body = b'{"limit":15}'
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            connection.settimeout(TIMEOUT_SECONDS)
            connection.connect((host, int(port)))
            request = POST.replace(b"tasks", b"tasks/claim") + b"Content-Length: %d\r\n\r\n" % len(body) + body
            connection.sendall(request)
            received = 0
            while received < 15_000_000:
                part = connection.recv(256 << 10)
                assert part, f"cut off after {received} bytes"
                received += len(part)
                time.sleep(0.05 * len(part) / (256 << 10))
