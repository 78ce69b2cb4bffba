"""A proxy in front of a service: it ends TLS, and it loses answers that the service has sent."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Proxy:
    """Forwards all data to a port of loopback. After ``lose_next`` it drops the next answer and ends the connection.

    ``kept`` bytes of that answer still reach the client.
    """

    def __init__(self, port: int, tls: ssl.SSLContext | None) -> None:
        self._target = port
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._must_lose = threading.Event()
        self._kept = 0
        self.last_head = b""
        self.lost = 0
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_next(self, *, kept: int = 0) -> None:
        self._kept = kept
        self._must_lose.set()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(client)
            if self._tls is not None:
                client = stack.enter_context(self._tls.wrap_socket(client, server_side=True))
            server = stack.enter_context(socket.create_connection(("127.0.0.1", self._target)))
            back = threading.Thread(target=self._back, args=(server, client), daemon=True)
            back.start()
            try:
                while data := client.recv(1 << 16):
                    server.sendall(data)
            finally:
                _end(server)
                back.join()

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 20):
                if self._must_lose.is_set():
                    self._must_lose.clear()
                    self.lost += 1
                    client.sendall(data[: self._kept])
                    break
                if data.startswith(b"HTTP/"):
                    self.last_head = data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
                client.sendall(data)
        _end(client)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(url: str, *, tls: ssl.SSLContext | None = None) -> Iterator[Proxy]:
    """Run a proxy to the service at a URL."""
    proxy = Proxy(int(url.rpartition(":")[2]), tls)
    try:
        yield proxy
    finally:
        proxy.close()
