"""What Python itself does beside the work of a worker: it looks for garbage, and lets threads take turns.

Each job makes a few values that are forgotten with it and hardly ever a cycle, but a thousand jobs on their way look
like growth, and by default that makes Python walk over everything there is, again and again. And it takes the turn
from a thread every few milliseconds: threads that handle thousands of jobs at once would mostly change places.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = 50_000  # values more than were forgotten, until Python looks among the new ones
LONG_TURN = 0.020  # seconds that a thread may go on while another could: a batch of a thousand jobs takes less


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
def rarely_disturbed() -> Iterator[None]:
    """After children are forked: handlers keep what they are used to. Not where the process does other work, too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    thresholds, turn = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(max(RARELY, thresholds[0]) if thresholds[0] else 0, *thresholds[1:])
    sys.setswitchinterval(max(LONG_TURN, turn))
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(turn)
