"""``Senders``: a bounded number of threads that send deliveries."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from holdfast.clock import monotonic

THREADS = 32
STOP_SECONDS = 5.0  # that requests under way have to end


class Senders:
    """Threads that run tasks. A task never raises."""

    def __init__(self, threads: int = THREADS) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._free = threads
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, name=f"holdfast-sender-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    @property
    def free(self) -> int:
        """How many tasks can begin at once."""
        return self._free

    def submit(self, task: Callable[[], None]) -> None:
        """Run a task in a thread; there must be a free one."""
        with self._lock:
            self._free -= 1
        self._tasks.put(task)

    def stop(self) -> None:
        """Wait for the tasks that run, for some seconds. The leases of the others expire, and they are sent again."""
        for _ in self._threads:
            self._tasks.put(None)
        deadline = monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - monotonic()))

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            finally:
                with self._lock:
                    self._free += 1
