"""The limit of open files: connections stay below it, and a process that has reached it logs once a minute."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from holdfast.service.http.server import OTHER_FILES, fit_connections
from tests.service.test_processes import ServeProcess, serve_processes
from tests.waiting import wait_until

FILES = 256
MAX_LOG_BYTES = 4096
CLAIM_BODY = b'{"waitSeconds":50}'
CLAIM = (
    b"POST /v1/tasks/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(CLAIM_BODY), CLAIM_BODY)
)


@contextlib.contextmanager
def waiting_workers(service: ServeProcess, count: int) -> Iterator[None]:
    """Open connections, each with a claim that waits; the service may refuse some."""
    url = service.client.base_url
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((url.host, url.port), timeout=30))
            with contextlib.suppress(ConnectionError):
                connection.sendall(CLAIM)
        yield


def is_healthy(service: ServeProcess) -> bool:
    """Whether a probe with a connection of its own is answered."""
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{service.client.base_url}/healthz", timeout=2, trust_env=False).status_code == 200
    return False


@pytest.mark.parametrize(
    ("files", "workers"), [(256, 300), pytest.param(1024, 1100, marks=pytest.mark.long)], ids=["small", "large"]
)
def test_more_workers_than_files_leave_probes_and_the_log_alone(tmp_path, files, workers):
    log = tmp_path / "log"
    with (
        log.open("w") as stderr,
        serve_processes(
            f"sqlite:///{tmp_path}/jobs.db",
            1,
            stderr=stderr,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),
        ) as [service],
        waiting_workers(service, workers),
    ):
        wait_until(lambda: is_healthy(service))
        assert len(list(Path(f"/proc/{service.process.pid}/fd").iterdir())) < files
        refused = httpx.get(f"{service.client.base_url}/v1/queues", timeout=30, trust_env=False)
        assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
        assert (refused.headers["connection"], refused.headers["retry-after"]) == ("close", "1")
        assert "http.few_files" in log.read_text()
        assert log.stat().st_size < MAX_LOG_BYTES


def test_a_process_without_a_free_file_logs_that_once_and_goes_on(tmp_path):
    log = tmp_path / "log"
    with log.open("w") as stderr, serve_processes(f"sqlite:///{tmp_path}/jobs.db", 1, stderr=stderr) as [service]:
        pid = service.process.pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))  # what is open stays open
        with waiting_workers(service, 100):
            wait_until(lambda: "http.no_files" in log.read_text())
            assert log.read_text().count("\n") <= 2  # with http.started
            assert log.stat().st_size < MAX_LOG_BYTES
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            wait_until(lambda: is_healthy(service))


@pytest.fixture
def soft_limit() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("soft_limit")
def test_the_soft_limit_is_raised_so_that_all_connections_fit():
    assert fit_connections(FILES) == FILES
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == FILES + OTHER_FILES
    assert fit_connections(10) == 10
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == FILES + OTHER_FILES
