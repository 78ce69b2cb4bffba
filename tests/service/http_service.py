"""A service in a thread of the test: the real uvicorn on a free port of loopback, over a real store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx

from holdfast import connect
from holdfast.drivers.store import Store
from holdfast.observability.prometheus import PrometheusMetrics
from holdfast.service.http.server import HttpServer
from holdfast.service.service import Service
from holdfast.service.timing import ServiceTiming
from holdfast.settings import Settings
from holdfast.settings.serve import ServeSettings

T = TypeVar("T")

TIMEOUT_SECONDS = 60.0
JSON = {"content-type": "application/json"}


class RunningService:
    """A service that answers, and a client of it."""

    def __init__(self, server: HttpServer, service: Service, store: Store) -> None:
        self.url = server.url
        self.stop = server.stop
        self.connections = server._server.server_state.connections
        self.service = service
        self.store = store
        self.client = httpx.Client(base_url=server.url, timeout=TIMEOUT_SECONDS, trust_env=False)

    def post(self, path: str, body: Any = None, *, token: str | None = None) -> httpx.Response:
        """Send JSON."""
        return self.client.post(path, json={} if body is None else body, headers=_bearer(token))

    def get(self, path: str, *, token: str | None = None, **parameters: Any) -> httpx.Response:
        """Read."""
        return self.client.get(path, params=parameters, headers=_bearer(token))

    def enqueue(self, command: str, **fields: Any) -> str:
        """Return the id of a new task."""
        answer = self.post("/v1/tasks", {"command": command, **fields})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["taskId"])

    def claim(self, command: str, **fields: Any) -> dict[str, Any]:
        """Return one claim, which must succeed."""
        answer = self.post("/v1/tasks/claim", {"commands": [command], **fields})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def settle(self, verb: str, claim: dict[str, Any], **fields: Any) -> httpx.Response:
        """Call a worker's verb with the token of a claim."""
        return self.post(f"/v1/tasks/{claim['task']['id']}/{verb}", {"leaseToken": claim["leaseToken"], **fields})


def _bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


@contextmanager
def running_service(
    url: str,
    settings: Settings | None = None,
    *,
    caller_clock: bool = False,
    timing: ServiceTiming = ServiceTiming(),
    **serve: Any,
) -> Iterator[RunningService]:
    """Run a service over the store at a URL, with some settings of ``[serve]``."""
    known = settings or Settings()
    known = replace(known, serve=replace(ServeSettings(), **serve))
    with connect(url, caller_clock=caller_clock) as store:
        prometheus = PrometheusMetrics.in_own_registry()
        service = Service(store, known, space="main", prometheus=prometheus, timing=timing)
        server = HttpServer(service, ("127.0.0.1", 0))
        listening = threading.Event()
        thread = threading.Thread(target=server.run, args=(listening.set,))
        thread.start()
        try:
            assert listening.wait(TIMEOUT_SECONDS)
            running = RunningService(server, service, store)
            with running.client:
                yield running
        finally:
            server.stop()
            thread.join(TIMEOUT_SECONDS)
            assert not thread.is_alive()


def in_thread(function: Callable[[], T]) -> Callable[[], T]:
    """Run a function in a thread; return a function that waits for its result."""
    results: list[T] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()

    def result() -> T:
        thread.join(TIMEOUT_SECONDS)
        return results[0]

    return result


def sqlite_url(folder: Path) -> str:
    """Return the URL of a store in a folder."""
    return f"sqlite:///{folder}/jobs.db"
