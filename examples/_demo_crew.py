"""The demo's side of its worker processes: starts them, stops and kills them by their ids, hears what they say."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from _demo_worker import GO, HOLD

SCRIPT = Path(__file__).with_name("_demo_worker.py")


class WorkerLost(Exception):
    """A worker ended that nobody had killed."""


@dataclass(slots=True)
class Said:
    """One message of a worker."""

    worker: Worker
    holding: int = 0
    settled: list[tuple[str, int, str]] = field(default_factory=list)  # job id, fence, ending
    refused: list[tuple[str, int, str]] = field(default_factory=list)  # job id, fence, error


class Worker:
    """One process, started at once."""

    def __init__(self, name: str, url: str, batch: int, said: queue.SimpleQueue[Said]) -> None:
        self.name = name
        self._may_end = False  # killed on purpose, or asked to stop
        # A group of its own: Ctrl-C is for the demo, which then ends its workers in order.
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT), url, name, str(batch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        self._listener = threading.Thread(target=self._listen, args=(said,), daemon=True)
        self._listener.start()

    def hold(self) -> None:
        """Have it say when it holds leases, and wait before it settles them."""
        self._send(HOLD)

    def freeze(self) -> None:
        """SIGSTOP: alive, but it does nothing and knows nothing of the time that passes."""
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT: it goes on where it was, as if no time had passed."""
        self._process.send_signal(signal.SIGCONT)
        self._send(GO)

    def kill(self) -> None:
        """SIGKILL: no clean-up, no goodbye."""
        self._may_end = True
        self._process.kill()
        self._process.wait()

    def check(self) -> None:
        """Raise ``WorkerLost`` if it has ended by itself."""
        code = self._process.poll()
        if code is not None and not self._may_end:
            raise WorkerLost(f"{self.name} ended with code {code}; its error stands above")

    def end(self, patience: float) -> None:
        """Ask it to stop, then make it; afterwards everything it said has been heard."""
        assert self._process.stdin is not None
        self._may_end = True
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
        self._listener.join()

    def _send(self, order: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(order)
        self._process.stdin.flush()

    def _listen(self, said: queue.SimpleQueue[Said]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.endswith(b"\n"):  # a killed worker may leave half a line
                    said.put(Said(self, **json.loads(line)))


class Crew:
    """All workers of a run; leaving the block leaves no process behind."""

    def __init__(self, url: str, *, workers: int, batch: int) -> None:
        self._said: queue.SimpleQueue[Said] = queue.SimpleQueue()
        self.workers: list[Worker] = []
        self._plan = [(f"worker-{number}", url, batch) for number in range(1, workers + 1)]

    def __enter__(self) -> Self:
        return self

    def start(self) -> None:
        """Start every worker."""
        for name, url, batch in self._plan:
            self.workers.append(Worker(name, url, batch, self._said))

    def heard(self) -> list[Said]:
        """What was said since the last call."""
        messages: list[Said] = []
        with contextlib.suppress(queue.Empty):
            while True:
                messages.append(self._said.get_nowait())
        return messages

    def check(self) -> None:
        """Raise ``WorkerLost`` if one has ended by itself."""
        for worker in self.workers:
            worker.check()

    def end(self, patience: float = 5.0) -> None:
        """Ask all to stop, then make them."""
        for worker in self.workers:
            worker.end(patience)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(patience=5.0 if error is None else 0.0)
