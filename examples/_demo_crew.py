"""The demo's side of its workers: starts `holdfast work`, stops and kills it by process id, reads what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

HERE = Path(__file__).parent
APP = "_demo_jobs:app"


class WorkerLost(Exception):
    """A worker ended that nobody had killed."""


class Worker:
    """One `holdfast work` with its child processes, started at once."""

    def __init__(self, name: str, url: str, log: Path, *, processes: int, lease: str) -> None:
        self.name = name
        self.tally: Counter[str] | None = None  # what it says at its end that it was told
        self._log = log
        self._may_end = False  # killed on purpose, or asked to stop
        self._ended = False
        command = [sys.executable, "-m", "holdfast", "work", APP, "--url", url]
        options = ["--processes", str(processes), "--lease", lease, "--json"]
        with log.open("wb") as stderr:
            # A group of its own: Ctrl-C is for the demo, which then ends its workers in order.
            self._process = subprocess.Popen(
                [*command, *options],
                cwd=HERE,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                process_group=0,
            )

    def wrote(self, worker: str) -> bool:
        """Whether it is this one that the store knows by a name such as ``host:4711:c0ffee``."""
        return worker.split(":")[-2:-1] == [str(self._process.pid)]

    def logged(self, event: str) -> int:
        """How often it has logged this event."""
        return self._log.read_text("utf-8", "replace").count(f" {event}\n")

    def freeze(self) -> None:
        """SIGSTOP: alive, but it does nothing and knows nothing of the time that passes. Its children go on."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # a signal takes its time

    def wake(self) -> None:
        """SIGCONT: it goes on where it was, as if no time had passed."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: no clean-up, no goodbye. Its children notice, and end."""
        self._may_end = True
        self._process.kill()

    def check(self) -> None:
        """Raise ``WorkerLost`` if it has ended by itself."""
        code = self._process.poll()
        if code is not None and not self._may_end:
            last = self._log.read_text("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
            raise WorkerLost(f"{self.name} ended with code {code}: {last[0]}")

    def ask_to_stop(self) -> None:
        """SIGTERM: what runs may end, the rest is given back."""
        self._may_end = True
        self.wake()
        self._process.terminate()

    def end(self, patience: float) -> None:
        """Wait for its end, then make it; afterwards none of its children is left: they hold the pipe open."""
        if self._ended:
            return
        try:
            said, _ = self._process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            self.kill()
            said, _ = self._process.communicate()
        self._ended = True
        if said.strip():
            self.tally = Counter(json.loads(said))


class Crew:
    """All workers of a run; leaving the block leaves no process behind."""

    def __init__(self, url: str, folder: Path, *, workers: int, processes: int, lease: str) -> None:
        self.workers: list[Worker] = []
        self.processes = processes
        self._names = [f"worker-{number}" for number in range(1, workers + 1)]
        self._url, self._folder, self._lease = url, folder, lease
        self._authors: dict[str, str] = {"": ""}  # what an operator did has none

    def __enter__(self) -> Self:
        return self

    def start(self) -> None:
        """Start every worker."""
        for name in self._names:
            log = self._folder / f"{name}.log"
            self.workers.append(Worker(name, self._url, log, processes=self.processes, lease=self._lease))

    def author(self, worker: str) -> str:
        """Our name for a worker as the store knows it."""
        if worker not in self._authors:
            self._authors[worker] = next(one.name for one in self.workers if one.wrote(worker))
        return self._authors[worker]

    def told(self) -> dict[str, Counter[str]]:
        """What each worker that came to its end says it was told, by its name in the store."""
        names = {ours: theirs for theirs, ours in self._authors.items()}
        return {names[one.name]: one.tally for one in self.workers if one.tally is not None and one.name in names}

    def check(self) -> None:
        """Raise ``WorkerLost`` if one has ended by itself."""
        for worker in self.workers:
            worker.check()

    def end(self, patience: float = 10.0) -> None:
        """Ask all to stop, then make them."""
        for worker in self.workers:
            worker.ask_to_stop()
        for worker in self.workers:
            worker.end(patience)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(patience=10.0 if error is None else 1.0)
