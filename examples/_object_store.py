"""A small object store over HTTP, for an example: GET, and PUT with the conditions of S3.

It stands for a real one. ``If-Match: ETAG`` stores only over this version, ``If-None-Match: *`` only a new object; both
are checked and stored in one step, and answer 412 otherwise. As on S3, the ETag is the MD5 of the bytes.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ObjectStore(ThreadingHTTPServer):
    """The objects by path. ``lock`` is held while a condition is checked and the object is stored."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    server: ObjectStore

    def do_GET(self) -> None:
        body = self.server.objects.get(self.path)
        if body is None:
            self._answer(404)
        else:
            self._answer(200, body, etag_of(body))

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        wanted, must_be_new = self.headers["If-Match"], self.headers["If-None-Match"] == "*"
        with self.server.lock:
            current = self.server.objects.get(self.path)
            matches = wanted is None or (current is not None and etag_of(current) == wanted)
            accepted = matches and not (must_be_new and current is not None)
            if accepted:
                self.server.objects[self.path] = body
        if accepted:
            self._answer(200, etag=etag_of(body))
        else:
            self._answer(412)

    def _answer(self, status: int, body: bytes = b"", etag: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if etag is not None:
            self.send_header("ETag", etag)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def etag_of(body: bytes) -> str:
    """Return the ETag of an object with these bytes."""
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


@contextmanager
def object_store() -> Iterator[int]:
    """Run the store in a thread until the end of the block; the value is its port."""
    with ObjectStore() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
