"""Signals that arrive before the worker runs: ``holdfast work`` exits with 0 and has reserved nothing.

``holdfast cron run`` does the same before its scheduler runs.

Importing the code, loading the user's module and opening the store take a while, and a deployment may be rolled back
meanwhile. ``listen`` is called before all of that, so this module imports almost nothing. The worker installs its own
signal handlers when it starts.
"""

from __future__ import annotations

import signal
import sys
import threading
import types
from collections.abc import Iterator, Sequence

SIGNALS = (signal.SIGTERM, signal.SIGINT)
OPTIONS_WITH_VALUE = frozenset({"--url", "--space", "--config"})  # options that may precede the command's name

# The worker checks this event too, because user code may catch the SystemExit that the signal raises.
stop_requested = threading.Event()


def listen(arguments: Sequence[str]) -> None:
    """Make a signal end this process with exit code 0 if the command runs until a signal; others are unaffected."""
    if _runs_until_a_signal(arguments) and threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, _stop)
        sys.unraisablehook = _hide_swallowed_exit


def _runs_until_a_signal(arguments: Sequence[str]) -> bool:
    words = _words(arguments)
    command = next(words, None)
    return command == "work" or (command == "cron" and next(words, None) == "run")


def _words(arguments: Sequence[str]) -> Iterator[str]:
    """Return the arguments without options and their values."""
    rest = iter(arguments)
    for word in rest:
        if word in OPTIONS_WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            yield word


def _stop(_number: int, _frame: types.FrameType | None) -> None:
    """Raise SystemExit in the main thread, so that a module that loads for minutes or a slow store ends too."""
    global _stopping  # noqa: PLW0603 - a second signal may arrive inside ``set``, while its lock is held
    if not _stopping:
        _stopping = True
        stop_requested.set()
    raise SystemExit(0)


def _hide_swallowed_exit(unraisable: sys.UnraisableHookArgs) -> None:
    """Print nothing when a destructor swallows the SystemExit; the worker then stops because of ``stop_requested``."""
    if not (_stopping and unraisable.exc_type is SystemExit):
        sys.__unraisablehook__(unraisable)


_stopping = False
