"""A transaction-pooling proxy, as small as one can be: every transaction gets another session of the server.

What a client leaves in a session (a setting, a prepared statement, a lock, LISTEN) is not there in its next one.
"""

import contextlib
import random
import select
import socket
import struct
import threading
from collections.abc import Iterator

NO_ENCRYPTION = (80877103, 80877104)  # SSLRequest, GSSENCRequest


class Pooler:
    """Clients come and go; the sessions stay, and are dealt out at random."""

    def __init__(self, port: int, *, sessions: int = 8) -> None:
        self._target = port
        self._limit = threading.BoundedSemaphore(sessions)
        self._free: dict[bytes, list[socket.socket]] = {}
        self._greetings: dict[bytes, bytes] = {}
        self._guard = threading.Lock()
        self._dice = random.Random(7)
        self.transactions = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for sessions in self._free.values():
            for session in sessions:
                session.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), client:
            while True:
                [length] = struct.unpack(">i", _exactly(client, 4))
                startup = struct.pack(">i", length) + _exactly(client, length - 4)
                if struct.unpack(">i", startup[4:8])[0] not in NO_ENCRYPTION:
                    break
                client.sendall(b"N")
            self._give_back(startup, self._session(startup))
            client.sendall(self._greetings[startup])
            while data := client.recv(1 << 16):
                if data[:1] == b"X":
                    return
                with self._limit:
                    self._transaction(client, startup, data)

    def _transaction(self, client: socket.socket, startup: bytes, data: bytes) -> None:
        session = self._session(startup)
        self.transactions += 1
        session.sendall(data)
        answers = _Answers()
        while not answers.idle:
            for ready in select.select([client, session], [], [])[0]:
                data = ready.recv(1 << 20)
                if not data:
                    session.close()
                    raise EOFError
                if ready is session:
                    answers.read(data)
                    client.sendall(data)
                else:
                    session.sendall(data)
        self._give_back(startup, session)

    def _session(self, startup: bytes) -> socket.socket:
        with self._guard:
            free = self._free.setdefault(startup, [])
            if len(free) > 1:  # never the one that was given back last
                return free.pop(self._dice.randrange(len(free) - 1))
        session = socket.create_connection(("127.0.0.1", self._target))
        session.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        session.sendall(startup)
        answers, greeting = _Answers(), b""
        while not answers.idle:
            data = session.recv(1 << 16)
            if not data:
                raise EOFError
            greeting += data
            answers.read(data)
        self._greetings.setdefault(startup, greeting)
        return session

    def _give_back(self, startup: bytes, session: socket.socket) -> None:
        with self._guard:
            self._free.setdefault(startup, []).append(session)


class _Answers:
    """Finds the end of a transaction in what a server sends."""

    def __init__(self) -> None:
        self._left = b""
        self.idle = False

    def read(self, data: bytes) -> None:
        for kind, body in self._messages(data):
            if kind == b"Z":
                self.idle = body == b"I"

    def _messages(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        self._left += data
        while len(self._left) >= 5:
            [length] = struct.unpack(">i", self._left[1:5])
            if len(self._left) < 1 + length:
                return
            yield self._left[:1], self._left[5 : 1 + length]
            self._left = self._left[1 + length :]


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = source.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data
