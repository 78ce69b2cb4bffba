"""The handlers that benchmarks of slots and of plain workers share: nothing, a millisecond of CPU, ten of sleep."""

from __future__ import annotations

import time
from collections.abc import Callable

CPU = 0.001  # seconds of the handler's own thread
SLEEP = 0.010


def handler(kind: str) -> Callable[[object], None]:
    """A function of its own, so that it travels to Spark's Python workers by value."""

    def noop(_payload: object) -> None:
        pass

    def cpu(_payload: object) -> None:
        until = time.thread_time() + CPU
        while time.thread_time() < until:
            pass

    def sleep(_payload: object) -> None:
        time.sleep(SLEEP)

    return {"noop": noop, "cpu": cpu, "sleep": sleep}[kind]
