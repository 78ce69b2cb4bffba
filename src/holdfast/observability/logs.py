"""``LogObserver``: the lifecycle of jobs, leases and the store as records of the standard ``logging``."""

from __future__ import annotations

from holdfast.worker.observer import WorkerObserver


class LogObserver(WorkerObserver):
    """Logs what a worker reports. It installs no handler: the program decides where records go."""
