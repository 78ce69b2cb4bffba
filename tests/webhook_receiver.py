"""A receiver of webhooks on a loopback address, which verifies signatures as the guide tells receivers to."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from holdfast.model.secret import Secret
from holdfast.settings.webhooks import WebhookSettings
from tests.waiting import wait_until

ALLOWED = "127.0.0.2"  # the tests allow this loopback address, and no other
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
OLD_SECRET = "whsec_" + base64.b64encode(b"fedcba9876543210fedcba9876543210").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.raw))

    def is_signed_with(self, secret: str) -> bool:
        """Whether one of the signatures is valid."""
        content = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.raw
        key = base64.b64decode(secret.removeprefix("whsec_"))
        wanted = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        given = [one.split(",", 1) for one in self.headers["webhook-signature"].split(" ")]
        return any(version == "v1" and hmac.compare_digest(text, wanted) for version, text in given)


class Receiver:
    """Keeps every request. ``respond`` returns the status of each answer."""

    def __init__(self, server: ThreadingHTTPServer, respond: Callable[[Received], int]) -> None:
        self._server = server
        self.respond = respond
        self.received: list[Received] = []
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        host, port, *_ = self._server.server_address
        scheme = "https" if isinstance(self._server.socket, ssl.SSLSocket) else "http"
        return f"{scheme}://{host}:{port}"

    @property
    def settings(self) -> WebhookSettings:
        """Settings that allow this receiver."""
        return WebhookSettings(secret=Secret(SECRET), urls=(f"{self.url}/",), networks=(f"{ALLOWED}/32",))

    @property
    def environment(self) -> dict[str, str]:
        """The same for another process."""
        return {
            "HOLDFAST_WEBHOOKS_SECRET": SECRET,
            "HOLDFAST_WEBHOOKS_URLS": f"{self.url}/",
            "HOLDFAST_WEBHOOKS_NETWORKS": f"{ALLOWED}/32",
        }

    def accept(self, one: Received) -> int:
        with self._lock:
            self.received.append(one)
        return self.respond(one)

    def of(self, task_id: str) -> list[Received]:
        """Return the callbacks of a task so far."""
        with self._lock:
            return [one for one in self.received if one.body.get("taskId") == task_id]

    def await_callback(self, task_id: str) -> Received:
        """Return the first callback of a task."""
        wait_until(lambda: bool(self.of(task_id)))
        return self.of(task_id)[0]


@contextmanager
def receiving(
    respond: Callable[[Received], int] = lambda _: 204, *, host: str = ALLOWED, tls: ssl.SSLContext | None = None
) -> Iterator[Receiver]:
    """Run a receiver on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            raw = self.rfile.read(length)
            if len(raw) < length:  # the sender was killed
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            status = receiver.accept(Received(path=self.path, headers=headers, raw=raw))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((host, 0), Handler) as server:
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        receiver = Receiver(server, respond)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
