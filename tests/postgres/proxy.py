"""A proxy that loses an answer: the server has carried out the call and committed, and the client never hears of it."""

import contextlib
import socket
import threading

IDLE = b"Z\x00\x00\x00\x05I"  # ReadyForQuery, outside of any transaction: what came before it is committed


class LosingProxy:
    """Forwards everything to a port, until it is told to lose the next answer that ends a transaction."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._armed = threading.Event()
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_next(self) -> None:
        self._armed.set()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
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
        greeted = False  # the first such answer only says that the session is open
        try:
            while data := server.recv(1 << 20):
                if data.endswith(IDLE):
                    if greeted and self._armed.is_set():
                        self._armed.clear()
                        self.lost += 1
                        return
                    greeted = True
                client.sendall(data)
        except OSError:
            pass
        finally:
            for end in (client, server):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
