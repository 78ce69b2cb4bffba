"""Waiting for something that another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.01


def wait_until(condition: Callable[[], T]) -> T:
    """Return the first true value of the condition; fail after TIMEOUT_SECONDS."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(POLL_SECONDS)
    return value
