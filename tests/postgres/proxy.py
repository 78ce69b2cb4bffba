"""A proxy that loses or holds replies: the server has carried out the call, but the client does not know."""

import contextlib
import socket
import threading
from collections.abc import Iterator

IDLE = b"Z\x00\x00\x00\x05I"  # ReadyForQuery outside of a transaction: the statements before it are committed


class LosingProxy:
    """``url`` is the given URL through the proxy. After ``lose_next`` it drops the next reply that ends a transaction.

    ``after`` such replies are forwarded before.
    """

    def __init__(self, url: str) -> None:
        server, database = url.rsplit("/", 1)
        head, port = server.rsplit(":", 1)
        self._target = int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{head}:{self._listener.getsockname()[1]}/{database}"
        self._flows = threading.Event()
        self._flows.set()
        self._must_lose = threading.Event()
        self._forwarded_before = 0
        self._clients: list[socket.socket] = []
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_next(self, *, after: int = 0) -> None:
        self._forwarded_before = after
        self._must_lose.set()

    def cut(self) -> None:
        """End the connections of the clients. The server goes on with what it does, and notices nothing meanwhile."""
        for client in self._clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Forward no reply inside the block: a server that hangs. The replies arrive after the block."""
        self._flows.clear()
        try:
            yield
        finally:
            self._flows.set()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._clients.append(client)
            server = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
            threading.Thread(target=self._back, args=(server, client), daemon=True).start()

    @staticmethod
    def _forward(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
        except OSError:
            pass
        finally:
            target.close()

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        is_open = False  # the first such reply only says that the session is open
        try:
            while data := server.recv(1 << 20):
                if data.endswith(IDLE):
                    if is_open and self._must_lose.is_set():
                        if not self._forwarded_before:
                            self._must_lose.clear()
                            self.lost += 1
                            return
                        self._forwarded_before -= 1
                    is_open = True
                self._flows.wait()
                client.sendall(data)
        except OSError:
            pass
        finally:
            for end in (client, server):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
