"""One worker as a program: ``python -m tests.soak.worker_program URL FOLDER '{"lease": 1.0, ...}'``.

Every action is written to a file at once, one line each, so that the soak can compare it with the ledger after a kill.
Each child writes ``began|ended JOB FENCE`` to ``FOLDER/runs.*``. The worker itself writes ``asked JOB FENCE VERB``
before and ``taken|refused JOB FENCE VERB`` after every settlement to ``FOLDER/settled.*``.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TypeVar, cast

import holdfast
from holdfast import Context, Holdfast, WorkerOptions
from holdfast.driver import Store
from holdfast.drivers.requests import Request, Reserve, Settle
from holdfast.errors import LeaseError
from holdfast.retry import Fixed
from tests.soak.ordered_checks import EFFECTS, effect_line

A = TypeVar("A")

QUEUE = "soak"
SLEEP = "sleep"  # a job that sleeps for the seconds in its payload
SEGFAULT = "segfault"
IGNORE = "ignore"  # a job that does nothing with any payload
KILL = "kill"  # a job that ends every process of its worker: its payload says how
KILL_BY_SIGNAL = "signal"
KILL_BY_MEMORY = "memory"  # it takes memory until somebody kills the worker
HOARD_BYTES = 400 << 20
ORDERED = "ordered"  # a job with a domain and an offset in its payload; it writes what it does to the file of effects
FAILS_EVERY = 10  # attempts of such jobs


class ActionLog:
    """A file of whole lines, one file per process: a forked child opens its own."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._folder = folder
        self._kind = kind
        self._pid = self._file = -1

    def write(self, *lines: str) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            path = self._folder / f"{self._kind}.{self._pid}.{time.monotonic_ns()}"  # process ids are reused
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())


class LoggedStore(Store):
    """A store that logs every settlement before and after, and creates the log at the first reserve."""

    def __init__(self, store: Store, log: ActionLog) -> None:
        super().__init__(store.engine)
        self._log = log
        self._has_reserved = False

    def do(self, request: Request[A]) -> A:
        if isinstance(request, Settle):
            return cast("A", self._settle(request))
        if isinstance(request, Reserve) and not self._has_reserved:
            self._has_reserved = True
            self._log.write()
        return super().do(request)

    def _settle(self, request: Settle) -> list[LeaseError | None]:
        facts = [f"{one.lease.job_id} {one.lease.fence} {one.verb}" for one in request.settlements]
        self._log.write(*(f"asked {fact}" for fact in facts))
        answers = super().do(request)
        answered = zip(facts, answers, strict=True)
        self._log.write(*(f"{'taken' if answer is None else 'refused'} {fact}" for fact, answer in answered))
        return answers


def make_app(url: str, folder: Path) -> Holdfast:
    app = Holdfast(driver=LoggedStore(holdfast.connect(url), ActionLog(folder, "settled")))
    make_handlers(app, folder)
    return app


def make_handlers(app: Holdfast, folder: Path) -> None:
    """Register the handlers."""
    runs = ActionLog(folder, "runs")

    @app.handler(SLEEP, queue=QUEUE)
    def sleep(payload: float, ctx: Context) -> None:
        runs.write(f"began {ctx.job.id} {ctx.fence}")
        if payload:
            time.sleep(payload)
        runs.write(f"ended {ctx.job.id} {ctx.fence}")

    @app.handler(SEGFAULT, queue=QUEUE, retry=Fixed(timedelta(milliseconds=10)))
    def segfault(_payload: object, ctx: Context) -> None:
        runs.write(f"began {ctx.job.id} {ctx.fence}")
        faulthandler.disable()
        os.kill(os.getpid(), signal.SIGSEGV)

    @app.handler(IGNORE, queue=QUEUE)
    def ignore(_payload: object) -> None:
        pass

    @app.handler(ORDERED, queue=QUEUE, retry=Fixed(timedelta(milliseconds=10)))
    def run_in_order(payload: tuple[str, int], ctx: Context) -> None:
        domain, offset = payload
        _append(folder / EFFECTS, effect_line("began", domain, offset, ctx.fence))
        if not hash((ctx.fence, offset)) % FAILS_EVERY:
            raise RuntimeError("an attempt that fails")
        _append(folder / EFFECTS, effect_line("ended", domain, offset, ctx.fence))

    @app.handler(KILL, queue=QUEUE)
    def kill(how: str, ctx: Context) -> None:
        runs.write(f"began {ctx.job.id} {ctx.fence}")
        if how == KILL_BY_MEMORY:
            hoard = bytearray(HOARD_BYTES)
            hoard[::4096] = b"1" * len(hoard[::4096])  # every page is in memory
        else:  # this process is a child of the fork server, which is a child of the worker
            forkserver = os.getppid()
            worker = int(Path(f"/proc/{forkserver}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(worker, signal.SIGKILL)
        time.sleep(60)


def _append(path: Path, line: str) -> None:
    """Write one line to a file that all processes share: its lines are in the order of the writes."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def make_hostile_app(url: str, _folder: Path) -> Holdfast:
    """An app with every handler that refuses to stop, by its name."""
    from tests.worker.hostile_handlers import HOSTILE_HANDLERS

    app = Holdfast(url)
    for handler in HOSTILE_HANDLERS:
        app.handler(handler.__name__, queue=QUEUE)(handler)
    return app


def main() -> None:
    url, folder, options_text = sys.argv[1:]
    options = json.loads(options_text)
    app = (make_hostile_app if options.pop("hostile", False) else make_app)(url, Path(folder))
    for name in ("lease", "drain", "grace"):
        if name in options:
            options[name] = timedelta(seconds=options[name])
    app.worker(WorkerOptions(queues=(QUEUE,), **options)).run()
    app.close()


if __name__ == "__main__":
    main()
