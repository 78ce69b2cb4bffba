"""Settings of the Python interpreter for a worker: garbage collection and thread switches.

A worker creates thousands of short-lived values and almost no reference cycles. With Python's defaults, the growing
number of objects makes the garbage collector scan all of them again and again. Python also switches threads every few
milliseconds, which would interrupt most batches of a thousand jobs. ``tests/unit/worker/test_interpreter.py`` checks
that both settings are restored.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

GC_THRESHOLD_OBJECTS = 50_000  # net new objects before Python scans the young ones
SWITCH_INTERVAL_SECONDS = 0.020  # longer than a batch of a thousand jobs takes


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Exclude the objects that exist now from garbage collection.

    Entered before children are forked: then the children do not scan these objects either, and share their memory with
    the parent for longer.
    """
    is_first = gc.get_freeze_count() == 0
    gc.freeze()
    try:
        yield
    finally:
        if is_first:
            gc.unfreeze()


@contextmanager
def tuned_interpreter() -> Iterator[None]:
    """Collect garbage rarely, and switch threads rarely. Does nothing outside of the main thread.

    Entered after children are forked: handlers keep the defaults. In another thread the process does other work, too,
    and both settings are global.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    thresholds, switch_interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(max(GC_THRESHOLD_OBJECTS, thresholds[0]) if thresholds[0] else 0, *thresholds[1:])
    sys.setswitchinterval(max(SWITCH_INTERVAL_SECONDS, switch_interval))
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(switch_interval)
