"""The handlers that the benchmarks of slots and of plain workers share: no work, 1 ms of CPU, 10 ms of sleep."""

from __future__ import annotations

import time
from collections.abc import Callable

CPU_SECONDS = 0.001
SLEEP_SECONDS = 0.010


def make_handler(kind: str) -> Callable[[object], None]:
    """A nested function, because cloudpickle sends nested functions by value to Spark's Python workers."""

    def noop(_payload: object) -> None:
        pass

    def cpu(_payload: object) -> None:
        until = time.thread_time() + CPU_SECONDS
        while time.thread_time() < until:
            pass

    def sleep(_payload: object) -> None:
        time.sleep(SLEEP_SECONDS)

    return {"noop": noop, "cpu": cpu, "sleep": sleep}[kind]
