"""``Endpoint``: ``/metrics``, ``/healthz`` and ``/readyz`` over HTTP, in one process, for probes and scrapers.

It answers GET and HEAD only, one request per connection. Connections are bounded in number and in time. A process that
is forked from this one closes the sockets at once: a handler must not accept connections of the worker, and the port is
free again as soon as the worker has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import socketserver
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from holdfast.clock import monotonic
from holdfast.errors import InvalidInput
from holdfast.log import events
from holdfast.log.records import log_event, log_failure
from holdfast.observability.health import Health, Verdict
from holdfast.worker.observer import WorkerObserver

DEFAULT_HOST = "127.0.0.1"
MAX_CONNECTIONS = 32  # more are closed unanswered


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTiming:
    """The time constants of an endpoint."""

    connection_seconds: float = 10.0  # from accept to close
    poll_seconds: float = 0.5  # between two looks for connections that are open for too long; closing waits for one


class Answer(NamedTuple):
    """The body of an answer and its type."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK


Route = Callable[[str], Answer]  # gets the header Accept


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and port of ``9000``, ``:9000``, ``host:9000`` or ``[::1]:9000``. No host is loopback only."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not port.isascii() or not port.isdigit() or int(port) > 65535 or (":" in host and "[" not in text):
        raise InvalidInput("address", wanted="HOST:PORT such as 127.0.0.1:9000, or a port", got=text)
    return host or DEFAULT_HOST, int(port)


def verdict_route(judge: Callable[[], Verdict]) -> Route:
    """Return the route of a verdict: 200 or 503, with the reasons as JSON."""

    def answer(_accept: str) -> Answer:
        verdict = judge()
        body = json.dumps({"ok": verdict.ok, "reasons": list(verdict.reasons)}).encode() + b"\n"
        status = HTTPStatus.OK if verdict.ok else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer(body, "application/json", status)

    return answer


class Endpoint:
    """Listens at an address from its creation on, and answers between ``start`` and ``close``."""

    def __init__(
        self, address: tuple[str, int], routes: Mapping[str, Route], *, timing: EndpointTiming = EndpointTiming()
    ) -> None:
        """Raise ``InvalidInput`` if the address cannot be used. Port 0 takes a free port."""
        host, port = address
        try:
            family, _, _, _, _ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._server = _Server(address, routes, family, timing)
        except OSError as error:
            got = f"{host}:{port}, {error.strerror or error}"
            raise InvalidInput("address", wanted="an address that is free on this machine", got=got) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(timing.poll_seconds,), name="holdfast-endpoint", daemon=True
        )
        _open_servers.add(self._server)

    @property
    def url(self) -> str:
        """The address, with the port in use."""
        host, port, *_ = self._server.socket.getsockname()
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> None:
        """Answer requests, in a thread. Call it after the process has forked what it forks."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening. The port is free at once; requests under way are cut off."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()
        self._server.close_connections()


class EndpointObserver(WorkerObserver):
    """Answers while a worker runs. The endpoint listens before; the worker forks its children in between."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def started(self, worker: str, queues: Sequence[str]) -> None:
        """Begin to answer."""
        del queues
        self._endpoint.start()
        log_event(events.ENDPOINT_STARTED, worker=worker, url=self._endpoint.url)

    def stopped(self, worker: str, statuses: Mapping[str, int]) -> None:
        """Stop listening."""
        del worker, statuses
        self._endpoint.close()


def worker_routes(health: Health, metrics: Route) -> dict[str, Route]:
    """Return the routes of a worker."""
    return {"/metrics": metrics, "/healthz": verdict_route(health.live), "/readyz": verdict_route(health.ready)}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True  # the connections of an ended worker do not keep its port
    request_queue_size = MAX_CONNECTIONS

    def __init__(
        self,
        address: tuple[str, int],
        routes: Mapping[str, Route],
        family: socket.AddressFamily,
        timing: EndpointTiming,
    ) -> None:
        self.address_family = family
        self.timing = timing
        self.routes = routes
        self._accepted: dict[socket.socket, float] = {}  # open connections, and when they were accepted
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without looking up the name of the host, as ``HTTPServer`` does: that may take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment] # of AF_INET and AF_INET6

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 - the signature of socketserver
        """Refuse a connection beyond the limit."""
        if len(self._accepted) >= MAX_CONNECTIONS:
            return False
        self._accepted[request] = monotonic()
        return True

    def service_actions(self) -> None:
        """Cut off connections that are open for too long. Called between requests."""
        too_old = monotonic() - self.timing.connection_seconds
        for connection, accepted_at in tuple(self._accepted.items()):
            if accepted_at < too_old:
                _shut_down(connection)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that ends."""
        self._accepted.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no traceback when a client goes away."""

    def close_connections(self) -> None:
        """Cut off all connections."""
        for connection in tuple(self._accepted):
            _shut_down(connection)

    def close_in_child(self) -> None:
        """Close the descriptors of this process, which are copies: those of the parent stay open."""
        self.socket.close()
        for connection in tuple(self._accepted):
            connection.close()


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended meanwhile
        connection.shutdown(socket.SHUT_RDWR)


_open_servers: weakref.WeakSet[_Server] = weakref.WeakSet()


def _close_in_child() -> None:
    for server in tuple(_open_servers):
        server.close_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "holdfast"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a request."""
        route = self.server.routes.get(self.path.partition("?")[0])
        if route is None:
            paths = " ".join(self.server.routes)
            self._send(Answer(f"not found; here are {paths}\n".encode(), status=HTTPStatus.NOT_FOUND))
            return
        try:
            answer = route(self.headers.get("Accept", ""))
        except Exception as error:  # noqa: BLE001 - a probe gets an answer, whatever fails
            log_failure(events.ENDPOINT_FAILED, error, path=self.path.partition("?")[0])
            answer = Answer(b"failed; see the log\n", status=HTTPStatus.INTERNAL_SERVER_ERROR)
        self._send(answer)

    do_HEAD = do_GET  # noqa: N815 - named by http.server

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Log no request: a probe comes every few seconds."""
