"""The sides of a benchmark as child processes: how they are started, timed and stopped."""

from __future__ import annotations

import os
import random
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

ROUND_TIMEOUT_SECONDS = 300
START_TIMEOUT_SECONDS = 60
STOP_TIMEOUT_SECONDS = 60
START_TIME = struct.Struct("d")  # what a listener writes when a handler starts: the monotonic clock in seconds
PAUSE_SECONDS = (0.05, 0.15)  # between two latency samples, so that every process is idle again

Enqueue = Callable[[], object]


def run_timed(module: str, role: str, *arguments: object) -> float:
    """Run a role of a benchmark module to its end; return the seconds that it printed."""
    command = _command(module, role, *arguments)
    return float(subprocess.check_output(command, text=True, timeout=ROUND_TIMEOUT_SECONDS))


def time_warm(count: int, call: Callable[[], object]) -> float:
    """Return the seconds of ``count`` calls, after as many that are not timed.

    A producer runs for long: its caches are filled, and the log of its store has its full size and grows no more.
    """
    for _ in range(count):
        call()
    started = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - started


@contextmanager
def listener(
    module: str, role: str, store: object, *arguments: object
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A process that runs jobs until the end of the block: the pipe of its start times, and the process.

    The process leads its own process group.
    """
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        _command(module, role, store, write_end, *arguments),
        pass_fds=[write_end],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(write_end)
    try:
        yield read_end, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(STOP_TIMEOUT_SECONDS)
        os.close(read_end)


def sample_start_latency(sides: Sequence[tuple[Enqueue, int]], *, samples: int) -> list[list[float]]:
    """Seconds from enqueue to the start of the handler, per side; the sides take turns, one job at a time."""
    pauses = random.Random(1)
    latencies: list[list[float]] = [[] for _ in sides]
    for enqueue, pipe in sides:  # the first job also waits for the process to start
        time_to_start(enqueue, pipe)
    for _ in range(samples):
        for (enqueue, pipe), seconds in zip(sides, latencies, strict=True):
            time.sleep(pauses.uniform(*PAUSE_SECONDS))
            seconds.append(time_to_start(enqueue, pipe))
    return latencies


def time_to_start(enqueue: Enqueue, pipe: int) -> float:
    """Seconds from just before the call of enqueue to the first line of the handler."""
    began = time.monotonic()
    enqueue()
    return next_start(pipe) - began


def next_start(pipe: int) -> float:
    """Wait for the next start of a handler; return its time on the monotonic clock, which all processes share."""
    ready, _, _ = select.select([pipe], [], [], START_TIMEOUT_SECONDS)
    assert ready, f"no handler has started within {START_TIMEOUT_SECONDS} s"
    (started,) = START_TIME.unpack(os.read(pipe, START_TIME.size))
    return float(started)


def report_start(pipe: int) -> None:
    """For handlers: write the current time to the pipe."""
    os.write(pipe, START_TIME.pack(time.monotonic()))


def _command(module: str, role: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.{module}", role, *map(str, arguments)]
