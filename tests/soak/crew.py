"""Workers as processes of their own: started, stopped, killed, replaced, and looked at from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import uuid_utils

from holdfast.clock import SystemClock
from holdfast.drivers.contract import Store
from holdfast.model.job import JobRecord
from tests.soak.hand import NAP, QUEUE

HERE = Path(__file__).resolve()


class Hand:
    """One worker process, in a session of its own: nursery and children are in its group."""

    def __init__(self, url: str, folder: Path, **options: object) -> None:
        program = [sys.executable, "-m", "tests.soak.hand", url, str(folder), json.dumps(options)]
        self._errors = (folder / f"errors.{time.monotonic_ns()}").open("w+")
        self.process = subprocess.Popen(
            program, stderr=self._errors, cwd=HERE.parents[2], start_new_session=True, stdout=subprocess.DEVNULL
        )
        self.pid = self.process.pid
        self._folder = folder
        self._gone = False
        self._alarm: threading.Timer | None = None

    def signal(self, number: int, *, everyone: bool = False) -> None:
        """To the worker itself, or to its children as well; to nobody once all are gone, as process ids come back."""
        if self._gone:
            return
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if everyone else os.kill)(self.pid, number)

    def stop_for(self, seconds: float, *, everyone: bool) -> None:
        """Stop it; a thread lets it go on, for whoever stopped it may come to wait for a commit of its."""
        self.signal(signal.SIGSTOP, everyone=everyone)
        self._alarm = threading.Timer(seconds, self.signal, [signal.SIGCONT], {"everyone": True})
        self._alarm.start()

    @property
    def is_stopped(self) -> bool:
        """Whether it will go on by itself."""
        return self._alarm is not None and self._alarm.is_alive()

    def is_up(self) -> bool:
        """Whether it has begun to work: before that, a signal ends it like any program that starts."""
        return any(self._folder.glob(f"settled.{self.pid}.*"))

    def end(self, timeout: float) -> int:
        """Wait for it; gives its exit code."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"worker {self.pid} has not ended within {timeout} s: {self.errors()}") from None
        finally:
            self._errors.flush()

    def errors(self) -> str:
        """What it wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read()

    def close(self) -> None:
        """Whatever is left of it ends here."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm.join()
        if not self.is_gone():
            self.signal(signal.SIGKILL, everyone=True)
        self.process.wait()
        self._errors.close()

    def remains(self) -> list[tuple[int, str]]:
        """What is left of its group: process ids and states."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                pid, (state, _, group) = int(stat.parent.name), stat.read_text().rsplit(")", 1)[1].split()[:3]
                found += [(pid, state)] if int(group) == self.pid else []
        return found

    def is_gone(self) -> bool:
        """Neither it nor a child of it is left."""
        self.process.poll()
        if not self._gone:
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                self._gone = True
        return self._gone


@contextlib.contextmanager
def crew(url: str, folder: Path) -> Iterator[Callable[..., Hand]]:
    """Starts hands, and leaves none behind."""
    hands: list[Hand] = []

    def start(**options: object) -> Hand:
        hands.append(Hand(url, folder, **options))
        return hands[-1]

    try:
        yield start
    finally:
        for hand in hands:
            hand.close()


def naps(seconds: list[float], **fields: object) -> list[JobRecord]:
    """A job for each of these lengths."""
    now = SystemClock().now()
    plain: dict[str, object] = {"type": NAP, "queue": QUEUE, "created_at": now, **fields}
    return [
        JobRecord(id=str(uuid_utils.uuid7()), payload=json.dumps(length).encode(), **plain)  # type: ignore[arg-type]
        for length in seconds
    ]


def left(store: Store) -> int:
    """How many jobs have not ended."""
    return sum(count.ready + count.scheduled + count.inflight for count in store.counts())


def until(holds: Callable[[], bool], *, timeout: float, otherwise: Callable[[], str]) -> None:
    """Look again and again."""
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.02)


def descendants(pid: int) -> list[int]:
    """Every living process below this one."""
    found = []
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        found += [child, *descendants(child)]
    return found
