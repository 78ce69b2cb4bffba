"""A temporary store for each test, and two ways to run the command: in this process, and in a child process."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import holdfast
import holdfast.driver
from holdfast import Client, Holdfast, JobRequest, Worker, WorkerOptions
from holdfast.cli.root import root
from holdfast.clock import MINUTE
from holdfast.observability.presence import PresenceObserver, read_presence
from tests.interrupts import default_interrupt
from tests.waiting import wait_until


@dataclass(frozen=True)
class Result:
    """The exit code and the output of one command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, without ``HOLDFAST_*`` variables."""
    for name in list(os.environ):
        if name.startswith("HOLDFAST_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def url(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{folder}/jobs.db"
    monkeypatch.setenv("HOLDFAST_URL", url)
    return url


@pytest.fixture
def run() -> Iterator[Callable[..., Result]]:
    """Runs the command in this process. A warning or an unexpected exception fails the test."""
    log = logging.getLogger()
    level, handlers = log.level, list(log.handlers)

    def run(*arguments: str, stdin: str | bytes = "", code: int | None = 0) -> Result:
        result = CliRunner().invoke(root, [str(argument) for argument in arguments], input=stdin)
        assert isinstance(result.exception, SystemExit | None), result.exception
        assert "Traceback" not in result.stderr
        if code is not None:
            assert result.exit_code == code, (result.stdout, result.stderr)
        if code not in {0, None}:
            assert len(result.stderr.splitlines()) <= 3
        return Result(result.exit_code, result.stdout, result.stderr)

    yield run
    log.setLevel(level)  # a command with --log or --log-level configures the log of its process
    log.handlers[:] = handlers


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the command in a child process, which is killed at the end of the test.

    The child gets the default action of SIGINT: a shell starts background commands, such as these tests, with SIGINT
    ignored, and Python then has no KeyboardInterrupt.
    """
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, terminal: int | None = None, **options: Any) -> subprocess.Popen[str]:
        """``terminal`` is the file descriptor of a terminal that replaces stdout; it is closed here."""
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments],
            stdout=subprocess.PIPE if terminal is None else terminal,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=default_interrupt,  # noqa: PLW1509 - calls one function of the C library
            **options,
        )
        started.append(process)
        if terminal is not None:
            os.close(terminal)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
            process.communicate()


@pytest.fixture
def store(url: str):
    with holdfast.connect(url) as store:
        yield store


@pytest.fixture
def filled(store):
    """Ten mails: six dead for two reasons, one done, one in flight, two ready; and a scheduled report."""
    client = Client(store)
    client.enqueue([JobRequest(type="mail.send", queue="mail", payload={"n": n}, name=f"mail {n}") for n in range(10)])
    for n, one in enumerate(store.reserve(["mail"], limit=8, lease_for=5 * MINUTE, worker="host-a")):
        if n < 4:
            holdfast.driver.fail(store, one.lease, reason="bad address", error=f"550 no such user 'u{n}@example.org'")
        elif n < 6:
            holdfast.driver.fail(store, one.lease, reason="unhandled", error=f"timed out after {n}.5 s at 0x7f3a{n}")
        elif n < 7:
            holdfast.driver.ack(store, one.lease)
    client.enqueue(JobRequest(type="report", queue="reports", delay=timedelta(days=1)))
    return store


@pytest.fixture
def attend(store):
    """Makes workers present that run no jobs, until the end of the test."""
    present = []

    def attend(name: str, *, queue: str = "mail", type: str = "mail.send") -> None:
        app = Holdfast(driver=store)
        app.handler(type, queue=queue)(lambda _: None)
        options = WorkerOptions(name=name, queues=(queue,), processes=2, concurrency=4)
        worker = Worker(store, options, catalogue=app.catalogue, observers=[PresenceObserver()])
        worker._observers.started(worker.name, worker.queues)
        present.append(worker)
        wait_until(lambda: read_presence(store, name))

    yield attend
    for worker in present:
        worker._observers.stopped(worker.name, {})
