"""A worker that dies at a named point of the guarded pipeline: ``python crash_points.py URL POINT FILE``.

Every run of the handler appends a line to the file when it begins, and another one when it has finished.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from holdfast import Holdfast, connect
from holdfast.drivers.requests import Settle, Write
from holdfast.drivers.store import Store

# After the reserve, after the write of mark and lock, in the handler, before the ack, after the ack.
POINTS = ("reserved", "marked", "handler", "finished", "answer lost")
NAME = "victim"  # of the worker that dies
LEASE = timedelta(minutes=5)  # the test ends the leases of the victim itself


def make_app(store: Store, effects: Path, on_point: Callable[[str], None] = lambda _: None) -> Holdfast:
    """Return an app whose handler leaves traces, and dies if ``on_point`` says so."""
    app = Holdfast(driver=store)

    @app.handler("charge", idempotent=True, single_instance=True)
    def charge(payload: int) -> int:
        with effects.open("a") as lines:
            lines.write("begun\n")
        on_point("handler")
        with effects.open("a") as lines:
            lines.write("finished\n")
        return payload

    return app


def plant(store: Store, on_point: Callable[[str], None]) -> None:
    """Let the calls of this store pass the points."""
    do = store.do
    points = {Write: ("reserved", "marked"), Settle: ("finished", "answer lost")}

    def pass_points(request):
        before, after = points.get(type(request), ("", ""))
        on_point(before)
        answer = do(request)
        on_point(after)
        return answer

    store.do = pass_points  # type: ignore[method-assign]


def main(url: str, wanted: str, effects: str) -> None:
    """Run one job, and kill this process at the point; ``worker``: while a child of its worker runs the handler."""

    def kill_at(point: str) -> None:
        if point == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    def kill_worker_in(point: str) -> None:
        if point == "handler":
            os.kill(worker, signal.SIGKILL)
            os._exit(1)

    store, worker = connect(url), os.getpid()
    if wanted == "worker":
        make_app(store, Path(effects), kill_worker_in).worker(lease=LEASE, name=NAME, processes=1).run()
    plant(store, kill_at)
    make_app(store, Path(effects), kill_at).worker(lease=LEASE, name=NAME).process_once()


if __name__ == "__main__":
    main(*sys.argv[1:])
