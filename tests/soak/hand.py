"""One worker as a program: ``python hand.py URL FOLDER '{"lease": 1.0, ...}'``.

Everything it does is written down at once, one line each, so that whoever kills it can compare with the ledger:
``FOLDER/runs.*``, by each child, has ``began|ended JOB FENCE``; ``FOLDER/settled.*``, by the worker itself, has
``asked JOB FENCE VERB`` before and ``taken|refused JOB FENCE VERB`` after every settlement.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import holdfast
from holdfast.app import Holdfast
from holdfast.drivers.contract import Store
from holdfast.errors import LeaseError
from holdfast.model.lease import Reservation
from holdfast.model.retry import Fixed
from holdfast.model.settlement import Settlement
from holdfast.worker.context import Context
from holdfast.worker.options import WorkerOptions

QUEUE = "soak"
NAP = "nap"  # sleeps for as many seconds as its payload says
SEGFAULT = "segfault"


class Diary:
    """A file of whole lines, of the process that writes: a forked child opens its own."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._folder = folder
        self._kind = kind
        self._pid = self._file = -1

    def write(self, *lines: str) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            path = self._folder / f"{self._kind}.{self._pid}.{time.monotonic_ns()}"  # process ids come back
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())


class Overheard:
    """A store whose settlements are written down, before and after; and that somebody has begun to reserve."""

    def __init__(self, store: Store, diary: Diary) -> None:
        self._store = store
        self._diary = diary
        self._up = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def reserve(self, queues: Sequence[str], **fields: Any) -> list[Reservation]:
        if not self._up:
            self._up = True
            self._diary.write()
        return self._store.reserve(queues, **fields)

    def settle(self, settlements: Sequence[Settlement]) -> list[LeaseError | None]:
        facts = [f"{given.lease.job_id} {given.lease.fence} {given.verb}" for given in settlements]
        self._diary.write(*(f"asked {fact}" for fact in facts))
        answers = self._store.settle(settlements)
        told = zip(facts, answers, strict=True)
        self._diary.write(*(f"{'taken' if answer is None else 'refused'} {fact}" for fact, answer in told))
        return answers


def make_app(url: str, folder: Path) -> Holdfast:
    app = Holdfast(driver=Overheard(holdfast.connect(url), Diary(folder, "settled")))  # type: ignore[arg-type]
    runs = Diary(folder, "runs")

    @app.handler(NAP, queue=QUEUE)
    def nap(payload: float, ctx: Context) -> None:
        runs.write(f"began {ctx.job.id} {ctx.fence}")
        if payload:
            time.sleep(payload)
        runs.write(f"ended {ctx.job.id} {ctx.fence}")

    @app.handler(SEGFAULT, queue=QUEUE, retry=Fixed(timedelta(milliseconds=10)))
    def segfault(_payload: object, ctx: Context) -> None:
        runs.write(f"began {ctx.job.id} {ctx.fence}")
        faulthandler.disable()
        os.kill(os.getpid(), signal.SIGSEGV)

    return app


def zoo_app(url: str, _folder: Path) -> Holdfast:
    """Every stubborn handler, by its name."""
    from tests.worker.zoo import ZOO

    app = Holdfast(url)
    for handler in ZOO:
        app.handler(handler.__name__, queue=QUEUE)(handler)
    return app


def main() -> None:
    url, folder, given = sys.argv[1:]
    fields = json.loads(given)
    app = (zoo_app if fields.pop("zoo", False) else make_app)(url, Path(folder))
    for name in ("lease", "drain", "grace"):
        if name in fields:
            fields[name] = timedelta(seconds=fields[name])
    app.worker(WorkerOptions(queues=(QUEUE,), **fields)).run()
    app.close()


if __name__ == "__main__":
    main()
