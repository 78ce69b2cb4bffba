"""The server of ``holdfast serve``: uvicorn with limits on connections and headers, which drains before it stops."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import resource
import socket
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvicorn

from holdfast.clock import monotonic
from holdfast.errors import InvalidInput
from holdfast.log import events
from holdfast.log.failures import Repeats
from holdfast.log.records import log_event
from holdfast.service.http.app import App
from holdfast.service.http.connection import SPARE_CONNECTIONS, limited_connection
from holdfast.service.service import Service

OTHER_FILES = 320  # of the store, artifacts under way, callbacks and the interpreter
BACKLOG = 512  # connections that wait to be accepted
ACCEPTS_PER_TURN = 16  # of the event loop: so many connections may be open for a moment although they are too many
CONNECTIONS_PER_REQUEST = 4  # open connections, as a multiple of ``max_requests``, if the limit of files allows them
LINGER_POLL_SECONDS = 0.02
NO_FILES_SECONDS = 60.0  # between two records of a process that has no free file


def fit_connections(wanted: int) -> int:
    """Return how many of these connections may be open. Raises the soft limit of the process if they do not fit.

    With a very low hard limit, half of the files are for connections.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(ValueError, OSError):  # macOS has a limit that is not the hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    return max(soft - OTHER_FILES, soft // 2)


class HttpServer:
    """Listens at an address from its creation on, and answers while ``run`` runs."""

    def __init__(self, service: Service, address: tuple[str, int]) -> None:
        """Raise ``InvalidInput`` if the address cannot be used. Port 0 takes a free port."""
        host, port = address
        check_bind(host, has_tokens=not service.authenticator.is_open)
        self._socket = _listen(host, port)
        wanted = service.serve.max_requests * CONNECTIONS_PER_REQUEST
        most = fit_connections(wanted + SPARE_CONNECTIONS + ACCEPTS_PER_TURN) - SPARE_CONNECTIONS - ACCEPTS_PER_TURN
        if most < wanted:
            log_event(events.HTTP_FEW_FILES, connections=most, wanted=wanted)
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a warning for each bad request would fill the log
        self._server = _Server(
            uvicorn.Config(
                App(service),
                http=limited_connection(most, service.timing),
                ws="none",
                loop="asyncio",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=service.timing.keep_alive_seconds,
                timeout_graceful_shutdown=service.timing.drain_seconds,
                backlog=ACCEPTS_PER_TURN,
            ),
            service,
        )

    @property
    def url(self) -> str:
        """The URL of the service, with the port in use."""
        host, port, *_ = self._socket.getsockname()
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def run(self, on_listening: Callable[[], None] = lambda: None) -> None:
        """Answer requests until SIGTERM, SIGINT or ``stop``. In another thread than the main one, only ``stop``."""
        self._server.on_listening = on_listening
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Answer the requests under way, and end ``run``. Safe to call from any thread."""
        self._server.should_exit = True


def check_bind(host: str, *, has_tokens: bool) -> None:
    """Raise ``InvalidInput`` if the service would be open to the network without tokens."""
    if has_tokens or host == "localhost":
        return
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise InvalidInput("serve_bind", wanted="a loopback address, because serve_auth is none", got=host)


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. The protocol is named: else asyncio leaves Nagle's algorithm on, which costs 40 ms."""
    listening = None
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(BACKLOG)
        return listening
    except OSError as error:
        if listening is not None:
            listening.close()
        got = f"{host}:{port}, {error.strerror or error}"
        raise InvalidInput("serve_bind", wanted="an address that is free on this machine", got=got) from error


class _Server(uvicorn.Server):
    """Tells the service when it is about to stop: requests that wait are answered then."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._no_files = Repeats(NO_FILES_SECONDS)
        self.on_listening: Callable[[], None] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._log_error)
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)  # asyncio has used one number for the backlog and for the accepts per turn
        self.on_listening()

    def _log_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error of the event loop. It has many in a second while no file is free for a connection."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in {errno.EMFILE, errno.ENFILE}:
            loop.default_exception_handler(context)
        elif (failures := self._no_files.add()) is not None:
            log_event(events.HTTP_NO_FILES, reason=error.strerror, failures=failures)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what waits; then, for a moment, the next request of each open connection; then close the idle ones."""
        self._service.drain()
        deadline = monotonic() + self._service.timing.linger_seconds
        while self.server_state.connections and not self.force_exit and monotonic() < deadline:  # noqa: ASYNC110 - as uvicorn
            await asyncio.sleep(LINGER_POLL_SECONDS)
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: types.FrameType | None) -> None:
        """Stop; a second signal stops at once. Unlike uvicorn, do not raise the signal again after the end."""
        del sig, frame
        self.force_exit = self.should_exit
        self.should_exit = True
