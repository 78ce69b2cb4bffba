"""Signals while slots run: the first one drains the slots, the second one does not wait. Runs on the Spark driver.

pyspark's own handler of SIGINT cancels all Spark jobs, and SIGTERM ends the process: both would leave leases behind.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import types
from collections.abc import Mapping
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SIGNAL_EXIT_CODE = 128  # plus the number of the signal, as in a shell
DRAIN, AT_ONCE, ABANDON = 1, 2, 3  # by the number of signals


class StopSignals:
    """Counts signals in a ``with`` block, and restores the handlers of the user at its end.

    Python runs signal handlers in the main thread only. In another thread, the block changes nothing.
    """

    def __init__(self) -> None:
        self.count = 0
        self.cause = ""  # the name of the first signal
        self.is_jvm_ending = False  # Spark stops as soon as the slots have drained
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                before = signal.getsignal(number)
                # An ignored signal stays ignored. None is a handler that Python did not install and cannot restore.
                if before not in (signal.SIG_IGN, None):
                    self._before[number] = before
                    signal.signal(number, self._count)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def on_jvm_shutdown(self) -> None:
        """Drain, because the JVM shuts down. A signal to the whole process group reaches the JVM too: count it once."""
        self.is_jvm_ending = True
        if not self.count:
            self.cause = signal.SIGTERM.name
            self.count = DRAIN

    def _count(self, number: int, _frame: types.FrameType | None) -> None:
        self.cause = self.cause or signal.Signals(number).name
        self.count += 1
        if self.count > ABANDON:
            raise KeyboardInterrupt  # the Spark driver itself does not respond


def make_exception(cause: str, summary: str) -> BaseException:
    """Return what a run raises after a signal: ``KeyboardInterrupt``, or ``SystemExit`` for SIGTERM.

    The text of a ``SystemExit`` would replace its exit code, so the summary is printed here.
    """
    if cause == signal.SIGINT.name:
        return KeyboardInterrupt(summary)
    with contextlib.suppress(OSError):  # the reader of a pipe may have got the signal too
        sys.stderr.write(f"holdfast: {summary}\n")
    return SystemExit(SIGNAL_EXIT_CODE + signal.SIGTERM)


def summarize(cause: str, counts: Mapping[str, int]) -> str:
    """Return one line: the signal, and how many attempts ended in which way."""
    texts = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()) if count)
    return f"stopped by {cause}: {texts or 'nothing done'}"
