"""The connections of the server: uvicorn and httptools, with bounded heads, deadlines, and problems as answers.

httptools takes a third of the processor time of h11, and refuses by itself what a proxy may read in another way: bare
line feeds, folded headers, repeated lengths, a length and chunks. It bounds nothing, and passes on the fields after the
last chunk as headers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from http import HTTPStatus
from urllib.parse import unquote

import httptools
import msgspec
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.service.http.app import SPARE
from holdfast.service.http.joined_writes import JoinedWrites
from holdfast.service.http.request_head import MAX_HEADER_BYTES
from holdfast.service.limits import MIN_BYTES_PER_SECOND
from holdfast.service.problems import CONTENT_TYPE, Code, Problem
from holdfast.service.timing import ServiceTiming

SPARE_CONNECTIONS = 96  # above the limit: each is answered once, probes well and others with 503; more are closed
MAX_PIPELINED = 32  # requests that wait for the one before them: the last one is told to close, later ones are not read
LENGTHS = (b"content-length", b"transfer-encoding")


def limited_connection(max_connections: int, timing: ServiceTiming) -> type[HttpToolsProtocol]:
    """Return the class of the connections of one server."""
    return type("LimitedConnection", (_Connection,), {"max_connections": max_connections, "timing": timing})


class _Connection(HttpToolsProtocol):
    """A connection with deadlines for headers and for a client that does not read."""

    max_connections = 0
    timing = ServiceTiming()
    _deadline: asyncio.TimerHandle | None = None
    _write_deadline: asyncio.TimerHandle | None = None
    _reads_head = False
    _has_read = False  # a head, a part of a body or the end of a request, in the data that came last
    _unread_bytes = 0  # since then
    _length_after_upgrade: tuple[bytes, bytes] | None = None  # the header that says how long the body will be
    _is_second_head = False
    _refusal: Problem | None = None  # of what is no HTTP: answered after the requests before it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as HttpToolsProtocol
        joined = JoinedWrites(transport, self.loop)
        super().connection_made(joined)
        self.flow = _Flow(joined, self.pipeline)
        if len(self.connections) > self.max_connections + SPARE_CONNECTIONS:
            transport.abort()
            return
        if len(self.connections) > self.max_connections:
            self.app_state = {**self.app_state, SPARE: True}
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        self._unset_keepalive_if_required()
        self._has_read = False
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._refuse(Problem(Code.INVALID_HTTP, "wanted a request as RFC 9112 says, with one clear length"))
            return
        self._unread_bytes = 0 if self._has_read else self._unread_bytes + len(data)
        if self._unread_bytes > MAX_HEADER_BYTES:
            self._refuse(Problem(Code.HEADERS_TOO_LARGE, f"wanted at most {MAX_HEADER_BYTES} bytes"))
        elif self._is_answering():
            self._forget_deadline()
        elif self._deadline is None and self.timeout_keep_alive_task is None:
            self._expect_headers()

    def _parse(self, data: bytes) -> None:
        """Parse data. A request that asks for another protocol is answered as any other one.

        httptools takes what follows its head for the other protocol. So a second head, which nobody sees, comes before
        its body.
        """
        rest = memoryview(data)
        while rest:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]
                if self._length_after_upgrade is not None:
                    head = b"POST / HTTP/1.1\r\n%b: %b\r\n\r\n" % self._length_after_upgrade
                    self._is_second_head = True
                    self.parser.feed_data(head)
            else:
                return

    # What the parser has found ------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._is_second_head:
            return
        if self.cycle is not None and not self.cycle.keep_alive:
            raise ValueError("nothing follows the last request")
        super().on_message_begin()
        self._reads_head = True

    def on_url(self, url: bytes) -> None:
        if self._reads_head:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reads_head:  # else it follows the last chunk: it must not look as if a proxy had let it pass
            super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        self._has_read = True
        if self._is_second_head:
            self._is_second_head, self._length_after_upgrade = False, None
            return
        super().on_headers_complete()
        self._reads_head = False
        if len(self.pipeline) >= MAX_PIPELINED:
            self.cycle.keep_alive = False
        raw_path, _, query = self.url.partition(b"?")  # uvicorn would drop the host of a whole URL, and a fragment
        self.scope["raw_path"], self.scope["query_string"] = raw_path, query
        self.scope["path"] = unquote(raw_path.decode("ascii"))
        if self.parser.should_upgrade():
            lengths = [header for header in self.headers if header[0] in LENGTHS]
            self._length_after_upgrade = lengths[0] if lengths else None

    def on_body(self, body: bytes) -> None:
        self._has_read = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._has_read = True
        if self._length_after_upgrade is None:
            super().on_message_complete()

    # What is no HTTP ----------------------------------------------------------------------------------------

    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem when it is its turn, then close; only close if the answer has begun already."""
        self._refusal = problem
        broken = self.cycle
        if self._reads_head or broken is None or not broken.more_body:  # a request without a whole head
            if broken is None or broken.response_complete:
                self._send_refusal(problem)
        elif broken.response_started:
            self.transport.close()
        elif self.pipeline and self.pipeline[0][0] is broken:  # the newest comes first
            self.pipeline.popleft()
        else:
            broken.disconnected = True  # its answer is not sent any more
            broken.message_event.set()
            self._send_refusal(problem)

    def _send_refusal(self, problem: Problem) -> None:
        body = msgspec.json.encode(problem.details())
        head = (
            f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}\r\ncontent-type: {CONTENT_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    # Deadlines ----------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        is_last = not self.pipeline
        super().on_response_complete()
        self._forget_deadline()
        if is_last and self._refusal is not None and not self.transport.is_closing():
            self._send_refusal(self._refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        self._forget_write_deadline()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_progress()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_write_deadline()

    def _expect_progress(self) -> None:
        """Cut off a client that takes too little of its answer in each period. Nothing is added to it meanwhile."""
        seconds, before = self.timing.write_seconds, self.transport.get_write_buffer_size()

        def check() -> None:
            if before - self.transport.get_write_buffer_size() < seconds * MIN_BYTES_PER_SECOND:
                self.transport.abort()
            else:
                self._expect_progress()

        self._write_deadline = self.loop.call_later(seconds, check)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_headers(self) -> None:
        self._deadline = self.loop.call_later(self.timing.header_seconds, self.transport.abort)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _forget_write_deadline(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None


class _Flow(FlowControl):
    """Reads nothing more while requests wait: else a client that reads no answers would fill the memory with them."""

    def __init__(self, transport: asyncio.Transport, waiting: Collection[object]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()
