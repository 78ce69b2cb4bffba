"""Holdfast: durable jobs under strict leases, one at a time or a DataFrame at a time.

The public API is this package, ``holdfast.cron``, ``holdfast.errors``, ``holdfast.handlers``, ``holdfast.ordering``,
``holdfast.retry``, ``holdfast.signing``, ``holdfast.spark`` and ``holdfast.testing``; ``holdfast.driver`` is the public
API for authors of drivers. Every other module is private and may change in any release.

Each name is imported at its first use, so that ``import holdfast`` stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.connect import connect  # not lazy: importing the module of that name would hide the function
from holdfast.lazy_names import lazy_names

if TYPE_CHECKING:
    from holdfast.aio import AsyncClient
    from holdfast.app import Holdfast
    from holdfast.client import Client, EnqueueKeywords
    from holdfast.enqueue_middleware import EnqueueMiddleware
    from holdfast.errors import HoldfastError
    from holdfast.model.definition import JobBuilder, JobDefinition
    from holdfast.model.job import Job, State
    from holdfast.model.lease import Enqueued
    from holdfast.model.queue_settings import QueueSettings
    from holdfast.model.request import JobRequest
    from holdfast.task import Task
    from holdfast.wire.codec import Codec, register_codec
    from holdfast.worker.context import Context
    from holdfast.worker.control import Retry, Snooze, Unrecoverable
    from holdfast.worker.limits import Limits
    from holdfast.worker.options import WorkerOptions
    from holdfast.worker.worker import Worker

    __version__: str

__all__ = [
    "AsyncClient",
    "Client",
    "Codec",
    "Context",
    "EnqueueKeywords",
    "EnqueueMiddleware",
    "Enqueued",
    "Holdfast",
    "HoldfastError",
    "Job",
    "JobBuilder",
    "JobDefinition",
    "JobRequest",
    "Limits",
    "QueueSettings",
    "Retry",
    "Snooze",
    "State",
    "Task",
    "Unrecoverable",
    "Worker",
    "WorkerOptions",
    "__version__",
    "connect",
    "register_codec",
]

_MODULES = {
    "holdfast.aio": ("AsyncClient",),
    "holdfast.app": ("Holdfast",),
    "holdfast.client": ("Client", "EnqueueKeywords"),
    "holdfast.enqueue_middleware": ("EnqueueMiddleware",),
    "holdfast.errors": ("HoldfastError",),
    "holdfast.model.definition": ("JobBuilder", "JobDefinition"),
    "holdfast.model.job": ("Job", "State"),
    "holdfast.model.lease": ("Enqueued",),
    "holdfast.model.queue_settings": ("QueueSettings",),
    "holdfast.model.request": ("JobRequest",),
    "holdfast.task": ("Task",),
    "holdfast.wire.codec": ("Codec", "register_codec"),
    "holdfast.worker.context": ("Context",),
    "holdfast.worker.control": ("Retry", "Snooze", "Unrecoverable"),
    "holdfast.worker.limits": ("Limits",),
    "holdfast.worker.options": ("WorkerOptions",),
    "holdfast.worker.worker": ("Worker",),
}
_import_name = lazy_names(__name__, _MODULES)


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name != "__version__":
        return _import_name(name)
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow to import, rarely needed

    try:
        return version("holdfast")
    except PackageNotFoundError:  # the source without an installation, such as a zip for Spark executors
        return "unknown"


def __dir__() -> list[str]:
    """The public names, for completion in shells and notebooks."""
    return sorted({*globals(), *__all__})
