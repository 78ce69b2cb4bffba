"""Signals that come before there is a worker: ``holdfast work`` ends with 0, and has reserved nothing.

Imports, the user's module and the store take a while, and a deploy may be taken back meanwhile. ``listen`` is called
before all of that, so this module imports next to nothing. Once the worker runs, it listens for itself.
"""

from __future__ import annotations

import signal
import threading
import types
from collections.abc import Sequence

SIGNALS = (signal.SIGTERM, signal.SIGINT)
WITH_VALUE = frozenset({"--url", "--space", "--config"})  # options that may stand before the command

asked = threading.Event()  # to stop; the worker looks at it too, because an exception can be caught on its way


def listen(arguments: Sequence[str]) -> None:
    """End this process with 0 at a signal, if the command is ``work``; others end as Python ends them."""
    if _is_work(arguments) and threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, _stop)


def _is_work(arguments: Sequence[str]) -> bool:
    words = iter(arguments)
    for word in words:
        if word in WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word == "work"
    return False


def _stop(_number: int, _frame: types.FrameType | None) -> None:
    """Raised wherever the main thread is, so that a module that loads for minutes ends too, or a store that is slow."""
    global _stopping  # noqa: PLW0603 - a second signal may come inside of ``set``, whose lock is held then
    if not _stopping:
        _stopping = True
        asked.set()
    raise SystemExit(0)


_stopping = False
