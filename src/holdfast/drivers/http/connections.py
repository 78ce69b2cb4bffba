"""Connections to one service, shared by threads and kept open between calls. No redirect and no proxy is followed."""

from __future__ import annotations

import http.client
import os
import select
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from holdfast.clock import monotonic
from holdfast.drivers.http.protocol import MAX_ANSWER_BYTES
from holdfast.drivers.http.url import ServiceAddress
from holdfast.errors import StoreClosed, StoreUnavailable

CONNECT_TIMEOUT_SECONDS = 10.0
FIRST_RETRY_SECONDS = 0.05  # before a call is repeated; doubled up to MAX_RETRY_SECONDS
MAX_RETRY_SECONDS = 1.0
MAX_IDLE_CONNECTIONS = 16  # more are closed after their call
MAX_PROBLEM_BYTES = 1 << 20

Connection = http.client.HTTPConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What the service has answered."""

    status: int
    content_type: str
    retry_after: float | None
    body: bytes


class Connections:
    """The connections of one process. A forked child opens its own."""

    def __init__(self, address: ServiceAddress) -> None:
        self.address = address
        self.is_closed = False
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._closing = threading.Event()
        self._idle: list[Connection] = []
        self._in_use: set[Connection] = set()

    def check_open(self) -> None:
        """Raise ``StoreClosed`` after ``close``."""
        if self.is_closed:
            raise StoreClosed

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float,
        is_repeatable: bool,
    ) -> HttpAnswer:
        """Send one request and return its answer.

        Connecting is repeated until the patience of the address has passed. A request whose answer was lost may have
        been carried out: it is repeated if ``is_repeatable``, otherwise it raises ``StoreUnavailable``.
        """
        began, pause = monotonic(), FIRST_RETRY_SECONDS
        while True:
            is_sent = False
            try:
                with self._take() as connection:
                    if connection.sock is None:
                        self._connect(connection)
                    assert connection.sock is not None
                    connection.sock.settimeout(timeout)
                    is_sent = True
                    connection.request(method, path, body=body, headers=dict(headers))
                    return _read_answer(connection)
            except ssl.SSLCertVerificationError as error:
                reason = f"wanted a valid certificate, {error.verify_message}"
                raise StoreUnavailable(f"{self.address.shown}: {reason}") from error
            except (OSError, http.client.HTTPException) as error:
                self.check_open()
                is_late = monotonic() - began + pause > self.address.patience or (
                    is_sent and isinstance(error, TimeoutError)
                )
                if is_late or (is_sent and not is_repeatable):
                    raise StoreUnavailable(f"{self.address.shown} cannot be reached: {_reason(error)}") from error
            self.pause(pause)
            pause = min(2 * pause, MAX_RETRY_SECONDS)

    @staticmethod
    def _connect(connection: Connection) -> None:
        connection.timeout = CONNECT_TIMEOUT_SECONDS
        connection.connect()
        assert connection.sock is not None
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    @contextmanager
    def _take(self) -> Iterator[Connection]:
        self.check_open()
        if os.getpid() != self._pid:
            self._reset()  # the sockets of the parent are closed with their objects, without a word to the service
        connection = self._pop_idle() or self._make()
        self._in_use.add(connection)
        try:
            yield connection
        except BaseException:
            connection.close()  # an answer may be under way
            raise
        finally:
            self._in_use.discard(connection)
        if self.is_closed or connection.sock is None or len(self._idle) >= MAX_IDLE_CONNECTIONS:
            connection.close()
        else:
            self._idle.append(connection)

    def _make(self) -> Connection:
        address = self.address
        if address.tls is None:
            return Connection(address.host, address.port, timeout=CONNECT_TIMEOUT_SECONDS)
        return http.client.HTTPSConnection(
            address.host, address.port, timeout=CONNECT_TIMEOUT_SECONDS, context=address.tls
        )

    def _pop_idle(self) -> Connection | None:
        """Return a connection that the service has not closed meanwhile."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took the last one
                return None
            with suppress(OSError, ValueError):
                if connection.sock is not None and not _is_readable(connection.sock):
                    return connection
            connection.close()
        return None

    def pause(self, seconds: float) -> None:
        """Sleep, or until the connections are closed. Raises ``StoreClosed``."""
        self._closing.wait(seconds)
        self.check_open()

    def close(self) -> None:
        """Close the connections. Calls that wait for an answer raise ``StoreClosed``."""
        self.is_closed = True
        self._closing.set()
        if os.getpid() != self._pid:
            return
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()
        for connection in self._in_use.copy():
            with suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)


def _is_readable(sock: socket.socket) -> bool:
    """Whether an idle socket has something to read: the service has closed it."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _read_answer(connection: Connection) -> HttpAnswer:
    """Read an answer of a bounded size. Raises ``HTTPException`` if a part of it is missing."""
    with connection.getresponse() as response:
        if response.length is None and not response.chunked:
            # http.client takes the end of the stream for the end of the headers: the rest of them may be lost.
            raise http.client.HTTPException("an answer without its length, as if it was cut off in its headers")
        most = MAX_ANSWER_BYTES if response.status == http.client.OK else MAX_PROBLEM_BYTES
        body = response.read(most + 1)
        if len(body) > most:
            raise http.client.HTTPException(f"an answer of more than {most} bytes")
        if response.length:  # of what is missing: a read with a bound does not raise by itself
            raise http.client.IncompleteRead(body, response.length)
        retry_after = response.getheader("Retry-After", "")
        return HttpAnswer(
            status=response.status,
            content_type=response.getheader("Content-Type", ""),
            retry_after=float(retry_after) if retry_after.isdecimal() and len(retry_after) < 6 else None,
            body=body,
        )


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())
