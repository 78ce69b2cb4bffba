"""A minimal transaction-pooling proxy: every transaction runs in another session of the server.

So the state that a client leaves in a session (a setting, a prepared statement, a lock, LISTEN) is missing in its next
transaction. Like PgBouncer, the proxy tells a client a process id that no session has: the client would send it with a
cancel request, and the proxy looks up which session the client uses then.
"""

import contextlib
import random
import select
import socket
import struct
import threading
from collections.abc import Iterator

NO_ENCRYPTION = (80877103, 80877104)  # SSLRequest, GSSENCRequest
INVENTED_PROCESS = -7


class Pooler:
    """Keeps sessions open and runs each transaction of a client in another one than its last."""

    def __init__(self, port: int, *, sessions: int = 8) -> None:
        self._target = port
        self._limit = threading.BoundedSemaphore(sessions)
        self._free: dict[bytes, list[socket.socket]] = {}
        self._greetings: dict[bytes, bytes] = {}
        self._guard = threading.Lock()
        self._random = random.Random(7)
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
                [length] = struct.unpack(">i", _receive_exactly(client, 4))
                startup = struct.pack(">i", length) + _receive_exactly(client, length - 4)
                if struct.unpack(">i", startup[4:8])[0] not in NO_ENCRYPTION:
                    break
                client.sendall(b"N")
            session = self._session(startup)
            self._return_session(startup, session)
            client.sendall(self._greetings[startup])
            while data := client.recv(1 << 16):
                if data[:1] == b"X":
                    return
                with self._limit:
                    session = self._session(startup, unlike=session)
                    self._transaction(client, session, data)
                    self._return_session(startup, session)

    def _transaction(self, client: socket.socket, session: socket.socket, data: bytes) -> None:
        self.transactions += 1
        session.sendall(data)
        replies = _ReplyReader()
        while not replies.is_idle:
            for ready in select.select([client, session], [], [])[0]:
                data = ready.recv(1 << 20)
                if not data:
                    session.close()
                    raise EOFError
                if ready is session:
                    replies.read(data)
                    client.sendall(data)
                else:
                    session.sendall(data)

    def _session(self, startup: bytes, *, unlike: socket.socket | None = None) -> socket.socket:
        """Take a free session at random, never ``unlike``: the one that ran the client's last transaction."""
        with self._guard:
            free = self._free.setdefault(startup, [])
            if choices := [session for session in free if session is not unlike]:
                session = self._random.choice(choices)
                free.remove(session)
                return session
        session = socket.create_connection(("127.0.0.1", self._target))
        session.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        session.sendall(startup)
        replies, greeting = _ReplyReader(), b""
        while not replies.is_idle:
            data = session.recv(1 << 16)
            if not data:
                raise EOFError
            greeting += data
            replies.read(data)
        self._greetings.setdefault(startup, _with_invented_process(greeting))
        return session

    def _return_session(self, startup: bytes, session: socket.socket) -> None:
        with self._guard:
            self._free.setdefault(startup, []).append(session)


@contextlib.contextmanager
def pool(url: str) -> Iterator[tuple[str, Pooler]]:
    """Start a pooler before the server of a URL; the URL behind the pooler, and the pooler."""
    head, database = url.rsplit("/", 1)
    host, port = head.rsplit(":", 1)
    pooler = Pooler(int(port))
    try:
        yield f"{host}:{pooler.port}/{database}", pooler
    finally:
        pooler.close()


class _ReplyReader:
    """Finds the end of a transaction in the messages of a server."""

    def __init__(self) -> None:
        self._unread = b""
        self.is_idle = False

    def read(self, data: bytes) -> None:
        for kind, body in self.messages(data):
            if kind == b"Z":
                self.is_idle = body == b"I"  # ReadyForQuery, outside of a transaction

    def messages(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        self._unread += data
        while len(self._unread) >= 5:
            [length] = struct.unpack(">i", self._unread[1:5])
            if len(self._unread) < 1 + length:
                return
            yield self._unread[:1], self._unread[5 : 1 + length]
            self._unread = self._unread[1 + length :]


def _with_invented_process(greeting: bytes) -> bytes:
    """Replace the process id in BackendKeyData, the message ``K``."""
    messages = b""
    for kind, body in _ReplyReader().messages(greeting):
        changed = struct.pack(">i", INVENTED_PROCESS) + body[4:] if kind == b"K" else body
        messages += kind + struct.pack(">i", 4 + len(changed)) + changed
    return messages


def _receive_exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = source.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data
