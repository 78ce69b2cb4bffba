"""Reports the starts of last attempts to the store, before their handlers begin (L7).

A heartbeat tells of a start up to a third of a lease later. If the worker is killed meanwhile, the store takes a
prefetched job for one that had not begun, and the job runs once more. So the pool lets a last attempt begin only after
the store has answered that it knows. All jobs that can begin now share one call. The store must not be told earlier:
then a job that still waits in a killed worker would be dead.
"""

from __future__ import annotations

import time

from holdfast.errors import StoreError
from holdfast.worker.heartbeat import RETRY_SECONDS, Heartbeat
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.processes.pool import ChildPool


def report_starts(pool: ChildPool, heartbeat: Heartbeat, observer: WorkerObserver) -> None:
    """Report the starts of last attempts, and let these begin, until the pool closes."""
    while (runs := pool.wait_for_last_attempts()) is not None:
        try:
            heartbeat.report_starts(runs)
        except StoreError as error:
            observer.store_failed("extend", error)
            time.sleep(RETRY_SECONDS)
        else:
            pool.begin_last_attempts(runs)
