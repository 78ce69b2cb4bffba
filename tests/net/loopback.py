"""Servers on loopback addresses for tests of outgoing requests: HTTP, TLS, and a DNS server that changes its mind."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ALLOWED = "127.0.0.2"  # the tests allow this loopback address, and no other
DENIED = "127.0.0.1"
CERTIFICATE = Path(__file__).with_name("service.test.pem")  # and its key: self-signed, for service.test, for 100 years
TIMEOUT_SECONDS = 60.0

Respond = Callable[[socket.socket], None]


def answer(body: bytes = b"hello", *, status: str = "200 OK", headers: str = "") -> Respond:
    """Respond with a whole answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return lambda connection: connection.sendall(head.encode() + body)


def stream(head: bytes, part: bytes, *, pause_seconds: float = 0.0) -> Respond:
    """Respond with ``part`` again and again until the client has gone, with a pause between two parts."""

    def respond(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(part)
            time.sleep(pause_seconds)

    return respond


def _is_whole(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\nContent-Length: ([0-9]+)", head)
    return bool(end) and len(body) >= int(length[1] if length else 0)


class Server:
    """Counts connections, keeps the bytes of requests, and responds to each with ``respond``."""

    def __init__(self, respond: Respond, *, host: str = ALLOWED, port: int = 0, tls: bool = False) -> None:
        self._respond = respond
        self._listening = socket.create_server((host, port))
        self._context: ssl.SSLContext | None = None
        self.names: list[str | None] = []  # that clients of TLS have asked for
        if tls:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(CERTIFICATE)
            self._context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self.host = host
        self.port: int = self._listening.getsockname()[1]
        self.connections = 0
        self.requests: list[bytes] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            with connection:
                if self._stopping.is_set():
                    return
                self.connections += 1
                connection.settimeout(TIMEOUT_SECONDS)
                with contextlib.suppress(OSError):  # the client goes whenever it wants
                    self._serve_one(connection)

    def _serve_one(self, connection: socket.socket) -> None:
        if self._context is not None:
            connection = self._context.wrap_socket(connection, server_side=True)
        with connection:
            received = b""
            while not _is_whole(received):
                data = connection.recv(65536)
                if not data:
                    return
                received += data
            self.requests.append(received)
            self._respond(connection)

    def stop(self) -> None:
        """Stop. A response that is going on ends when its client goes."""
        self._stopping.set()
        socket.create_connection((self.host, self.port)).close()
        self._thread.join(TIMEOUT_SECONDS)
        self._listening.close()


@contextmanager
def serving(respond: Respond, *, host: str = ALLOWED, port: int = 0, tls: bool = False) -> Iterator[Server]:
    server = Server(respond, host=host, port=port, tls=tls)
    try:
        yield server
    finally:
        server.stop()


class DnsServer:
    """Answers each question for an A record with the next address; the last one stays."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = list(addresses)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((DENIED, 0))
        self.queries = 0
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            question, client = self._socket.recvfrom(512)
            if not question:
                return
            address = self._addresses[min(self.queries, len(self._addresses) - 1)]
            self.queries += 1
            header = question[:2] + struct.pack("!HHHHH", 0x8180, 1, 1, 0, 0)
            record = struct.pack("!HHHIH", 0xC00C, 1, 1, 0, 4) + socket.inet_aton(address)  # TTL 0
            self._socket.sendto(header + question[12:] + record, client)

    def resolve(self, host: str, _port: int) -> list[str]:
        """Ask this server, by a packet, for the address of a host."""
        name = b"".join(bytes([len(label)]) + label.encode() for label in host.split(".")) + b"\0"
        question = struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + name + struct.pack("!HH", 1, 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(TIMEOUT_SECONDS)
            asking.sendto(question, self._socket.getsockname())
            return [socket.inet_ntoa(asking.recv(512)[-4:])]

    def stop(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stopping:
            stopping.sendto(b"", self._socket.getsockname())
        self._thread.join(TIMEOUT_SECONDS)
        self._socket.close()
