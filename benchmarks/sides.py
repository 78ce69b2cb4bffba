"""Sides of a benchmark as processes of their own: how they are started, listened to, and ended."""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONGEST = 300  # seconds that a round may take at the most
INSTANT = struct.Struct("d")  # what a listener writes when a handler starts


def seconds(side: str, role: str, *arguments: object) -> float:
    """What a side says that it took."""
    return float(subprocess.check_output(_program(side, role, *arguments), text=True, timeout=LONGEST))


@contextmanager
def listener(side: str, role: str, place: object, *arguments: object) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A side that works until the end; gives the pipe it writes to, and its process, the leader of a group."""
    ours, theirs = os.pipe()
    process = subprocess.Popen(
        _program(side, role, place, theirs, *arguments),
        pass_fds=[theirs],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield ours, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(60)
        os.close(ours)


def until_start(enqueue: Callable[[], object], pipe: int) -> float:
    """Seconds from before the call of enqueue to the first line of the handler."""
    began = time.monotonic()
    enqueue()
    return next_start(pipe) - began


def next_start(pipe: int) -> float:
    """The instant at which the next handler starts, by the clock of the whole machine."""
    ready, _, _ = select.select([pipe], [], [], 60)
    assert ready, "no handler has started within a minute"
    (started,) = INSTANT.unpack(os.read(pipe, INSTANT.size))
    return float(started)


def tell_start(pipe: int) -> None:
    """For handlers: this one starts now."""
    os.write(pipe, INSTANT.pack(time.monotonic()))


def _program(side: str, role: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.{side}", role, *map(str, arguments)]
