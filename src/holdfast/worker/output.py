"""Captures what a handler prints, and still prints it. Only the end of a long output is kept.

Attempts that run at the same time in several threads, or as tasks of one event loop, are kept apart by a context
variable. A thread that the handler starts has no such variable, and a program that it starts writes to the terminal
directly: neither is captured.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar
from typing import NamedTuple, TextIO

from holdfast.model.execution import MAX_OUTPUT_BYTES

_current: ContextVar[OutputTail | None] = ContextVar("holdfast_output", default=None)
_lock = threading.Lock()  # of _captures
_captures: list[OutputTail] = []  # those in progress


class Output(NamedTuple):
    """The end of an output. ``truncated`` if its beginning is left out."""

    text: str
    truncated: bool = False


class OutputTail:
    """Keeps the last ``MAX_OUTPUT_BYTES`` bytes of what is added."""

    def __init__(self) -> None:
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._is_truncated = False

    def add(self, text: str) -> None:
        """Add a text, and drop the oldest ones that are too much. May be called in any thread."""
        data = text[-MAX_OUTPUT_BYTES:].encode("utf-8", "replace")
        self._is_truncated = self._is_truncated or len(text) > MAX_OUTPUT_BYTES
        with _lock:
            self._parts.append(data)
            self._size += len(data)
            while self._size - len(self._parts[0]) >= MAX_OUTPUT_BYTES:
                self._size -= len(self._parts.popleft())
                self._is_truncated = True

    def read(self) -> Output:
        """Return the end of the output."""
        with _lock:
            data = b"".join(self._parts)
        end = data[-MAX_OUTPUT_BYTES:]
        return Output(end.decode("utf-8", "ignore"), self._is_truncated or len(end) < len(data))


class _Tee:
    """A stream that passes everything on, and adds what is written to the tail of the writing attempt."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        tail = _current.get()
        if tail is not None and isinstance(text, str):
            tail.add(text)
        return self.stream.write(text)

    def writelines(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:  # flush, isatty, fileno, encoding, buffer and all else
        return getattr(self.stream, name)


@contextlib.contextmanager
def captured() -> Iterator[OutputTail]:
    """Capture what this thread prints, and the tasks that it runs, until the block ends."""
    tail = OutputTail()
    with _lock:
        _captures.append(tail)
        if len(_captures) == 1:
            sys.stdout, sys.stderr = _Tee(sys.stdout), _Tee(sys.stderr)
    token = _current.set(tail)
    try:
        yield tail
    finally:
        _current.reset(token)
        with _lock:
            _captures.remove(tail)
            if not _captures:
                sys.stdout, sys.stderr = _plain(sys.stdout), _plain(sys.stderr)


def _plain(stream: TextIO) -> TextIO:
    """Return the stream behind a tee; another stream was set by the handler, and stays."""
    return stream.stream if isinstance(stream, _Tee) else stream
