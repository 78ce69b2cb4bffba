"""Hostile requests: every one gets the expected problem, none a 500, and the service goes on."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sqlite3

import pytest

from holdfast import Client, JobRequest
from holdfast.drivers.requests import Cancel, Purge
from holdfast.service import limits
from holdfast.service.http.connection import MAX_PIPELINED
from holdfast.service.timing import ServiceTiming
from holdfast.settings.serve import AuthMode
from tests.service.http_service import JSON, in_thread, running_service, sqlite_url
from tests.waiting import wait_until

DEEP = 10_000

BODIES = {
    "nothing": (b"", "invalid_json"),
    "a space": (b" ", "invalid_json"),
    "cut off": (b'{"command":"a"', "invalid_json"),
    "two values": (b'{"command":"a"}{}', "invalid_json"),
    "a trailing comma": (b'{"command":"a",}', "invalid_json"),
    "a comment": (b'{"command":"a"/**/}', "invalid_json"),
    "single quotes": (b"{'command':'a'}", "invalid_json"),
    "a byte order mark": (b'\xef\xbb\xbf{"command":"a"}', "invalid_json"),
    "UTF-16": ('{"command":"a"}'.encode("utf-16"), "invalid_json"),
    "not UTF-8": (b'{"command":"a","payload":"\xff"}', "invalid_json"),
    "overlong UTF-8": (b'{"command":"a","payload":"\xc0\xaf"}', "invalid_json"),
    "a lone surrogate": (b'{"command":"a","payload":"\\ud800"}', "invalid_json"),
    "a raw control character": (b'{"command":"a","payload":"\x01"}', "invalid_json"),
    "NaN": (b'{"command":"a","payload":NaN}', "invalid_json"),
    "infinity": (b'{"command":"a","payload":-Infinity}', "invalid_json"),
    "a number out of range": (b'{"command":"a","payload":1e999}', "invalid_json"),
    "a whole number of 65 bits": (b'{"command":"a","payload":36893488147419103232}', "invalid_json"),
    "a very long number": (b'{"command":"a","payload":' + b"9" * 100_000 + b"}", "invalid_json"),
    "a leading zero": (b'{"command":"a","payload":01}', "invalid_json"),
    "a key twice": (b'{"command":"a","command":"b"}', "invalid_json"),
    "a key twice, escaped": (b'{"command":"a","\\u0063ommand":"b"}', "invalid_json"),
    "a key twice, inside": (b'{"command":"a","payload":[{"x":1,"x":1}]}', "invalid_json"),
    "deep lists": (b'{"command":"a","payload":' + b"[" * DEEP + b"]" * DEEP + b"}", "invalid_json"),
    "deep objects": (b'{"command":"a","payload":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}", "invalid_json"),
    "deep and cut off": (b"[" * 1_000_000, "invalid_json"),
    "65 levels": (b'{"command":"a","payload":' + b"[" * 64 + b"]" * 64 + b"}", "invalid_json"),
    "a list": (b"[]", "invalid_request"),
    "null": (b"null", "invalid_request"),
    "a text": (b'"command"', "invalid_request"),
    "no command": (b"{}", "invalid_request"),
    "a webhook inside of a cloud": (b'{"command":"a","webhook":"http://169.254.169.254/"}', "invalid_request"),
    "an unknown field": (b'{"command":"a","callback":"x"}', "invalid_request"),
    "a field of the prototype": (b'{"command":"a","__proto__":{}}', "invalid_request"),
    "a field in another case": (b'{"Command":"a"}', "invalid_request"),
    "a command with a slash": (b'{"command":"../a"}', "invalid_request"),
    "a command with SQL": (b'{"command":"a\'; DROP TABLE jobs;--"}', "invalid_request"),
    "a command with NUL": (b'{"command":"a\\u0000"}', "invalid_request"),
    "a command with a newline": (b'{"command":"a\\n"}', "invalid_request"),
    "an empty command": (b'{"command":""}', "invalid_request"),
    "a long command": (b'{"command":"' + b"a" * 129 + b'"}', "invalid_request"),
    "a command that is a list": (b'{"command":["a"]}', "invalid_request"),
    "a queue with a format": (b'{"command":"a","queue":"%s%n"}', "invalid_request"),
    "a priority of 10": (b'{"command":"a","priority":10}', "invalid_request"),
    "a priority in quotes": (b'{"command":"a","priority":"1"}', "invalid_request"),
    "a priority that is true": (b'{"command":"a","priority":true}', "invalid_request"),
    "no attempts": (b'{"command":"a","maxAttempts":0}', "invalid_request"),
    "too many attempts": (b'{"command":"a","maxAttempts":99999999999}', "invalid_request"),
    "a delay in the past": (b'{"command":"a","delaySeconds":-1}', "invalid_request"),
    "a delay of centuries": (b'{"command":"a","delaySeconds":1e300}', "invalid_request"),
    "a time without a zone": (b'{"command":"a","runAt":"2090-01-01T00:00:00"}', "invalid_request"),
    "a time before 1970": (b'{"command":"a","runAt":"1900-01-01T00:00:00Z"}', "invalid_request"),
    "a time as a number": (b'{"command":"a","runAt":1}', "invalid_request"),
    "an empty key": (b'{"command":"a","idempotencyKey":""}', "invalid_request"),
    "a key with a control character": (b'{"command":"a","idempotencyKey":"\\u0007"}', "invalid_request"),
    "a key of 257 bytes": (b'{"command":"a","idempotencyKey":"' + "ü".encode() * 129 + b'"}', "invalid_request"),
    "an offset without a domain": (b'{"command":"a","offset":1}', "invalid_request"),
    "an offset of 64 bits": (b'{"command":"a","domain":"d","offset":9223372036854775808}', "invalid_request"),
    "a webhook on loopback": (b'{"command":"a","webhook":"http://0x7f.1/"}', "invalid_request"),
    "a webhook with credentials": (b'{"command":"a","webhook":"https://a:b@example.org/"}', "invalid_request"),
    "a webhook that is a file": (b'{"command":"a","webhook":"file:///etc/passwd"}', "invalid_request"),
    "NUL in a queue": (b'{"command":"a","queue":"q\\u0000"}', "invalid_request"),
    "NUL in a key": (b'{"command":"a","idempotencyKey":"k\\u0000"}', "invalid_request"),
    "NUL in a domain": (b'{"command":"a","domain":"d\\u0000"}', "invalid_request"),
    "very many keys": (b'{"command":"a",' + b",".join(b'"%d":1' % n for n in range(50_000)) + b"}", "invalid_request"),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_hostile_body_is_refused(sqlite_service, name):
    body, code = BODIES[name]
    answer = sqlite_service.client.post("/v1/tasks", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Traceback" not in answer.text


def test_nothing_of_them_was_stored(sqlite_service):
    assert sqlite_service.store.counts() == []


def test_a_payload_may_have_63_levels(sqlite_service, command):
    payload = json.loads("[" * 63 + "]" * 63)
    task_id = sqlite_service.enqueue(command, payload=payload)
    assert sqlite_service.get(f"/v1/tasks/{task_id}").json()["payload"] == payload
    sqlite_service.store.do(Cancel(job_ids=[task_id]))
    sqlite_service.store.do(Purge(job_ids=[task_id]))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "application/json; charset=utf-16"}, 415),
        ({"content-type": "application/json", "content-encoding": "gzip"}, 415),
        ({}, 415),
        ({"content-type": "Application/JSON; charset=UTF-8"}, 400),
        ({"content-type": "application/json"}, 400),
    ],
)
def test_a_body_of_another_type_is_refused(sqlite_service, headers, status):
    answer = sqlite_service.client.post("/v1/tasks", content=b"{}", headers=headers)
    assert answer.status_code == status


def test_a_body_that_is_too_large_is_refused_before_it_is_read(sqlite_service):
    head = b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = exchange(sqlite_service, head + b"Content-Length: 99999999999\r\n\r\n")
    assert (answer.status, answer.body["code"]) == (413, "body_too_large")
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n" + b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    answer = exchange(sqlite_service, chunked + (b"100000\r\n" + b"x" * 0x100000 + b"\r\n") * 4)
    assert (answer.status, answer.body["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=1&limit=2",
        "unknown=1",
        "status=NOPE",
        "after=%ff",
        "after=" + "x" * 300,
    ],
)
def test_a_hostile_query_is_refused(sqlite_service, query):
    answer = sqlite_service.client.get(f"/v1/tasks?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


def test_a_hostile_cursor_is_refused(sqlite_service):
    for after in ("x", "-1", "' OR 1=1", "\u0000", "🙂"):
        assert sqlite_service.get("/v1/tasks", after=after).status_code in (200, 400)


# Raw HTTP ---------------------------------------------------------------------------------------------------


class Answer:
    """The first answer on a connection."""

    def __init__(self, data: bytes) -> None:
        head, _, body = data.partition(b"\r\n\r\n")
        self.data = data
        self.status = int(head.split(b" ")[1]) if head else 0
        self.body = json.loads(body) if body.startswith(b"{") and body.endswith(b"}") else {}


def exchange(service, data: bytes) -> Answer:
    """Send bytes, and return the answer."""
    return Answer(converse(service, data, answers=1))


def converse(service, data: bytes, *, answers: int, seconds: float = 30.0) -> bytes:
    """Send bytes, and return what comes until the service closes the connection, or so many answers have come."""
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        with contextlib.suppress(OSError):  # the service has answered and closed before it read all
            connection.sendall(data)
        received = b""
        while not is_whole(received) or received.count(b"HTTP/1.1 ") < answers:
            try:
                part = connection.recv(65536)
            except ConnectionError:
                break
            if not part:
                break
            received += part
    return received


def is_whole(data: bytes) -> bool:
    head, end, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    return bool(end) and bool(lengths) and len(body) >= int(lengths[0])


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

LARGE = 600_000  # more than one read of the service

RAW = {
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 15\r\n\r\n{}",
    "a length and chunks": POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a length and chunks, folded": POST + b"Content-Length: 2\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "two encodings": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunks that are encoded": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "an encoding with a prefix": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "an encoding with a control character": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "an encoding without a colon": POST + b"Transfer-Encoding chunked\r\n\r\n0\r\n\r\n",
    "a folded first header": b"GET /healthz HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "a carriage return in a header": POST + b"X-A: 1\rContent-Length: 2\r\n\r\n",
    "two lengths with a comma": POST + b"Content-Length: 2, 15\r\n\r\n{}",
    "a length in hexadecimal": POST + b"Content-Length: 0x2\r\n\r\n{}",
    "a length with an underscore": POST + b"Content-Length: 1_0\r\n\r\n{}",
    "a length in other digits": POST + "Content-Length: \u0662\r\n\r\n{}".encode(),
    "a chunk with a wrong end": POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}XX0\r\n\r\n",
    "a chunk whose size has 30 digits": POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"F" * 30 + b"\r\n{}\r\n",
    "an unknown transfer encoding": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "a length with a sign": POST + b"Content-Length: +2\r\n\r\n{}",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a chunk of a negative size": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n",
    "a space before the colon": POST + b"X-A : 1\r\n\r\n",
    "a header without a name": POST + b": 1\r\n\r\n",
    "NUL in a header": POST + b"X-A: \x00\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
    "headers over 16 KiB": POST + b"X-A: " + b"x" * (20 << 10) + b"\r\n\r\n",
    "very many headers": POST + b"".join(b"X-%d: 1\r\n" % number for number in range(3000)) + b"\r\n",
    "a long path": b"GET /" + b"x" * (20 << 10) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "bare line feeds": b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
    "one bare line feed": b"GET /healthz HTTP/1.1\r\nHost: localhost\nX-A: 1\r\n\r\n",
    "a bare line feed after the headers": POST + b"Content-Length: 2\r\n\n{}",
    "a folded header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: 1\r\n 2\r\n\r\n",
    "a header folded with a tab": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A:\r\n\t2\r\n\r\n",
    "chunks in HTTP/1.0": POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "one length twice": POST + b"Content-Length: 2\r\ncontent-length: 2\r\n\r\n{}",
    "one length twice with a comma": POST + b"Content-Length: 2, 2\r\n\r\n{}",
    "a chunk size with a bare line feed": POST + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n",
    "a chunk size with a space": POST + b"Transfer-Encoding: chunked\r\n\r\n2 \r\n{}\r\n0\r\n\r\n",
    "a chunk size of 65 bits": POST + b"Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n",
    "a bare line feed after the last chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\n\n",
    "a length after the last chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 2\r\n\r\n{}",
    "a large field after the last chunk": POST
    + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: "
    + b"x" * LARGE,
    "a large extension of a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n2;" + b"x" * LARGE,
    "very many line ends": b"\r\n" * LARGE,
    "a control character in a header": POST + b"X-A: \x01\r\n\r\n",
    "a tunnel": b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another version": b"GET /healthz HTTP/3.0\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("name", RAW)
def test_what_is_no_clear_http_is_refused(sqlite_service, name):
    answer = exchange(sqlite_service, RAW[name])
    assert answer.status in (400, 414, 431), answer.data
    assert answer.body["code"] in ("invalid_http", "headers_too_large", "uri_too_long")


@pytest.mark.parametrize("end", [b"\r\n\r\n", b""], ids=["whole", "without an end"])
@pytest.mark.parametrize(
    "headers", [b"X-A: " + b"x" * (70 << 10), b"\r\n".join([b"X-A: 1"] * 9000)], ids=["large", "many"]
)
def test_headers_that_are_too_large_are_431(sqlite_service, headers, end):
    answer = exchange(sqlite_service, POST + headers + end)
    assert (answer.status, answer.body["code"]) == (431, "headers_too_large")


@pytest.mark.parametrize("name", RAW)
def test_a_later_request_that_is_no_clear_http_is_refused(sqlite_service, name):
    statuses = statuses_of(sqlite_service, HEALTH + RAW[name], answers=2)
    assert statuses in ([b"200", b"400"], [b"200", b"414"], [b"200", b"431"])


def statuses_of(service, data: bytes, *, answers: int) -> list[bytes]:
    return re.findall(rb"HTTP/1\.1 (\d+) ", converse(service, data, answers=answers))


def test_a_field_after_the_last_chunk_is_no_header(sqlite_service):
    ended = POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Request-Id: from-the-end\r\n\r\n"
    assert b"from-the-end" not in exchange(sqlite_service, ended).data


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
NOT_A_BODY = b"GET /unknown HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "request_", [HEALTH[:-2] + UPGRADE + b"\r\n", POST + UPGRADE + b"Content-Length: 0\r\n\r\n"], ids=["GET", "POST"]
)
def test_a_request_that_asks_for_another_protocol_is_answered_as_others_are(sqlite_service, request_):
    [first, second] = statuses_of(sqlite_service, request_ + HEALTH, answers=2)
    assert (first, second) in ((b"200", b"200"), (b"400", b"200"))


@pytest.mark.parametrize("is_chunked", [False, True])
def test_the_body_of_a_request_that_asks_for_another_protocol_is_no_request(sqlite_service, is_chunked):
    """As the HTTP client of Java asks for HTTP/2 in its first request."""
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(NOT_A_BODY), NOT_A_BODY) if is_chunked else NOT_A_BODY
    length = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % len(body)
    sent = POST + UPGRADE + length + b"\r\n\r\n" + body + HEALTH
    assert statuses_of(sqlite_service, sent, answers=2) == [b"400", b"200"]  # it is no JSON


def test_requests_that_are_sent_without_an_end_are_answered_in_part(sqlite_service):
    answers = converse(sqlite_service, HEALTH * 1000, answers=1000)
    assert answers.count(b"HTTP/1.1 200 ") == MAX_PIPELINED + 1
    assert answers.count(b"connection: close") == 1


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/healthz"),
        ("GET", "/v1/queues"),
        ("DELETE", "/v1/workers/subscriptions/x"),
        ("POST", "/v1/tasks/x/cancel"),
    ],
)
@pytest.mark.parametrize(
    "body", [b"Content-Length: 2\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"]
)
def test_a_body_for_a_call_without_one_is_refused_clearly(sqlite_service, method, path, body):
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n".encode()
    answer = exchange(sqlite_service, head + body)
    assert (answer.status, answer.body["code"], answer.body["detail"]) == (400, "invalid_request", "wanted no body")


CHUNKED = b"Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"


@pytest.mark.parametrize("path", ["POST /v1/tasks", "POST /unknown", "PUT /v1/tasks", "GET /healthz", "GET /v1/events"])
def test_a_bad_chunk_writes_no_traceback(sqlite_service, caplog, path):
    host, port = sqlite_service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(f"{path} HTTP/1.1\r\n".encode() + CHUNKED)
        if path != "POST /v1/tasks":  # which waits for the whole body; others are answered before it
            assert connection.recv(65536)
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"no size\r\n")
            while connection.recv(65536):
                pass
    assert sqlite_service.get("/healthz").status_code == 200
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize(
    "path",
    ["/v1/../etc/passwd", "//etc/passwd", "/v1/tasks/", "/V1/tasks", "/v1%2ftasks", "/v1/tasks%00", "/v2/tasks", "/"],
)
def test_other_paths_are_not_found(sqlite_service, path):
    answer = exchange(sqlite_service, b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode())
    assert (answer.status, answer.body["code"]) == (404, "not_found")


def test_another_method_names_those_that_are_allowed(sqlite_service):
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"):
        answer = sqlite_service.client.request(method, "/v1/tasks")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    assert sqlite_service.client.head("/healthz").status_code == 200


def test_a_request_id_is_returned_and_a_hostile_one_is_replaced(sqlite_service):
    assert sqlite_service.client.get("/healthz", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    for hostile in ("a b", "x" * 200, "<script>"):
        assert (
            sqlite_service.client.get("/healthz", headers={"x-request-id": hostile}).headers["x-request-id"] != hostile
        )


IMPATIENT = ServiceTiming(header_seconds=0.2, body_seconds=0.2, write_seconds=0.2)


def test_headers_and_bodies_that_do_not_end_are_cut_off(tmp_path):
    with running_service(sqlite_url(tmp_path), timing=IMPATIENT) as running:
        assert exchange(running, b"").data == b""
        assert exchange(running, b"GET /healthz HTTP/1.1\r\nHost: loc").data == b""
        answer = exchange(running, POST + b'Content-Length: 20\r\n\r\n{"command"')
        assert (answer.status, answer.body["code"]) == (408, "timeout")
        answer = exchange(running, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer.status == 200


DROPS = {  # what is sent at once, and what follows again and again
    "a head": (b"GET /", b"x"),
    "the head of a later request": (HEALTH + b"GET /healthz HTTP/1.1\r\n", b"X-A: 1\r\n"),
    "a body": (POST + b"Content-Length: 99\r\n\r\n", b" "),
}


def test_requests_that_come_drop_by_drop_are_cut_off(tmp_path):
    with running_service(sqlite_url(tmp_path), timing=IMPATIENT) as running, contextlib.ExitStack() as stack:
        host, port = running.url.removeprefix("http://").split(":")
        open_connections = {}
        for name, (start, _) in DROPS.items():
            connection = socket.create_connection((host, int(port)), timeout=0.01)
            open_connections[name] = stack.enter_context(connection)
            connection.sendall(start)

        def are_closed() -> bool:
            """Send another drop to each connection; whether the service has closed all of them."""
            for name, connection in list(open_connections.items()):
                try:
                    connection.sendall(DROPS[name][1])
                    is_closed = connection.recv(65536) == b""
                except TimeoutError:
                    is_closed = False
                except ConnectionError:
                    is_closed = True
                if is_closed:
                    del open_connections[name]
            return not open_connections

        wait_until(are_closed)


def test_a_client_that_does_not_read_is_cut_off(tmp_path):
    with running_service(sqlite_url(tmp_path), timing=ServiceTiming(write_seconds=0.2)) as running:
        for _ in range(12):
            running.enqueue("a", payload="x" * 1_000_000)
        host, port = running.url.removeprefix("http://").split(":")
        body = b'{"limit":12}'
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((host, int(port)))
            connection.sendall(
                POST.replace(b"tasks", b"tasks/claim") + b"Content-Length: %d\r\n\r\n" % len(body) + body
            )
            wait_until(lambda: any(one._write_deadline for one in list(running.connections)))
            wait_until(lambda: len(running.connections) == 1)  # that of the client of the test
        assert running.get("/healthz").status_code == 200


TOKENS = """
[[tokens]]
token = "token-of-slow-readers"
subject = "slow"
admin = true

[[tokens]]
token = "token-of-somebody-else"
subject = "other"
scopes = ["read"]
"""


def test_answers_that_nobody_reads_are_bounded_and_cost_the_others_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_UNSENT_BYTES", 16 << 20)
    (tmp_path / "tokens.toml").write_text(TOKENS)
    settings = {"auth": (AuthMode.STATIC,), "tokens_file": str(tmp_path / "tokens.toml")}
    slow, other = "token-of-slow-readers", "token-of-somebody-else"
    with running_service(sqlite_url(tmp_path), **settings) as running, contextlib.ExitStack() as stack:
        jobs = [running.post("/v1/tasks", {"command": "a", "payload": "x" * 1_000_000}, token=slow) for _ in range(9)]
        assert {job.status_code for job in jobs} == {202}
        claim = running.post("/v1/tasks/claim", {"commands": ["a"]}, token=slow).json()
        host, port = running.url.removeprefix("http://").split(":")
        for _ in range(10):  # each wants 8 MB
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((host, int(port)))
            head = f"GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {slow}\r\n\r\n"
            connection.sendall(head.encode())
        wait_until(lambda: running.get("/v1/tasks/x", token=slow).status_code == 503)
        assert running.service.unsent._held.total() <= 16 << 20
        assert running.get("/v1/tasks/x", token=other).status_code == 404
        ended = {"leaseToken": claim["leaseToken"], "status": "COMPLETED"}
        assert running.post(f"/v1/tasks/{claim['task']['id']}/result", ended, token=slow).status_code == 200
        stack.close()
        wait_until(lambda: running.get("/v1/tasks", token=slow).status_code == 200)


def test_tasks_that_wait_for_a_claim_are_not_answered_while_earlier_answers_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_UNSENT_BYTES", 16 << 20)
    claims, tasks = 5, 9  # of 1 MB: one answer is more than half of what is allowed
    with running_service(sqlite_url(tmp_path)) as running, contextlib.ExitStack() as stack:
        host, port = running.url.removeprefix("http://").split(":")
        for number in range(claims):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((host, int(port)))
            body = b'{"commands":["c%d"],"limit":%d,"waitSeconds":20}' % (number, tasks)
            head = POST.replace(b"tasks", b"tasks/claim") + b"Content-Length: %d\r\n\r\n" % len(body)
            connection.sendall(head + body)
        wait_until(lambda: running.service.requests._waiting == claims)
        store = running.service.tenant("main").store
        for number in range(claims):
            Client(store).enqueue([JobRequest(type=f"c{number}", payload="x" * 1_000_000)] * tasks)
        wait_until(lambda: running.service.requests._waiting == running.service.requests._running == 0)
        assert 0 < running.service.unsent._held.total() <= 16 << 20
        counts = store.counts()
        assert sorted(one.inflight for one in counts) == [0] * (claims - 1) + [tasks]
        assert sorted(one.ready for one in counts) == [0] + [tasks] * (claims - 1)


def test_many_large_bodies_at_once_are_refused_and_small_ones_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_HELD_BYTES", 1 << 20)
    large = {"command": "a", "payload": "x" * (900 << 10)}
    with running_service(sqlite_url(tmp_path)) as running:
        count = running.service.requests
        with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # so that every write waits
            first = in_thread(lambda: running.post("/v1/tasks", large))
            wait_until(lambda: count.held_bytes > 900 << 10)
            refused = running.post("/v1/tasks", large)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            small = in_thread(lambda: running.post("/v1/tasks", {"command": "a"}))
            wait_until(lambda: count._running == 2)
            other.execute("COMMIT")
        assert (first().status_code, small().status_code) == (202, 202)
        assert running.post("/v1/tasks", large).status_code == 202
        wait_until(lambda: count.held_bytes == 0)


def test_too_many_requests_at_once_are_refused_and_settlements_last(tmp_path):
    with running_service(sqlite_url(tmp_path), max_requests=2) as running:
        running.enqueue("a")
        claim = running.claim("a")
        count = running.service.requests
        waiting = in_thread(lambda: running.claim("b", waitSeconds=50))  # counts apart
        wait_until(lambda: count._waiting == 1)
        with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # so that every write waits
            writes = [in_thread(lambda: running.post("/v1/tasks", {"command": "b"})) for _ in range(2)]
            wait_until(lambda: count._running == 2)
            refused = running.post("/v1/tasks", {"command": "c"})
            assert (refused.json()["code"], refused.headers["retry-after"]) == ("overloaded", "1")
            assert running.get("/healthz").status_code == 200
            settled = in_thread(lambda: running.settle("result", claim, status="COMPLETED"))
            wait_until(lambda: count._running == 3)
            other.execute("COMMIT")
        assert [write().status_code for write in writes] == [202, 202]
        assert settled().status_code == 200
        assert waiting()["task"]["command"] == "b"
