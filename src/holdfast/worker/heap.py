"""How often Python looks for garbage in a worker: what the app has imported never, what belongs to jobs rarely.

Each job makes a few values that are forgotten with it and hardly ever a cycle, but a thousand jobs on their way look
like growth, and by default that makes Python walk over everything there is, again and again.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = 50_000  # values more than were forgotten, until Python looks among the new ones


@contextmanager
def old_values_left_alone() -> Iterator[None]:
    """Before children are forked: then they do not walk over them either, and share their memory for longer."""
    first = gc.get_freeze_count() == 0
    gc.freeze()
    try:
        yield
    finally:
        if first:
            gc.unfreeze()


@contextmanager
def garbage_looked_for_rarely() -> Iterator[None]:
    """After children are forked: handlers keep what they are used to. Not where the process does other work, too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = gc.get_threshold()
    gc.set_threshold(max(RARELY, before[0]) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
