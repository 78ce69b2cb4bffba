"""Holdfast: durable jobs under strict leases, one at a time or a DataFrame at a time.

The public API is this package, ``holdfast.errors``, ``holdfast.handlers``, ``holdfast.ordering``, ``holdfast.spark``
and ``holdfast.testing``; ``holdfast.driver`` is the public API for authors of drivers. Every other module is private
and may change in any release.

Each name is imported at its first use, so that ``import holdfast`` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from holdfast.connect import connect  # not lazy: importing the module of that name would hide the function

if TYPE_CHECKING:
    from holdfast.aio import AsyncClient
    from holdfast.app import Holdfast
    from holdfast.client import Client, EnqueueKeywords
    from holdfast.cron.builder import ScheduleBuilder
    from holdfast.cron.expression import CronExpression
    from holdfast.cron.reports import Fired, FireStatus
    from holdfast.cron.runner import CronRunner
    from holdfast.cron.schedule import Missed, Schedule
    from holdfast.cron.schedules import ScheduleInfo, Schedules
    from holdfast.cron.window import TimeWindow
    from holdfast.enqueue_middleware import EnqueueMiddleware
    from holdfast.errors import HoldfastError, InvalidInput, LeaseError
    from holdfast.model.definition import JobBuilder, JobDefinition
    from holdfast.model.execution import ExecutionResult
    from holdfast.model.job import Job, State
    from holdfast.model.lease import Enqueued
    from holdfast.model.queue_settings import Gaps, OnExhausted, QueueSettings
    from holdfast.model.request import JobRequest
    from holdfast.model.retry import Custom, Exponential, Fixed, Jitter, Linear, NoDelay, RetryPolicy
    from holdfast.signing import open_signer
    from holdfast.task import Task
    from holdfast.wire.codec import Codec, register_codec
    from holdfast.wire.signing import Signer
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
    "CronExpression",
    "CronRunner",
    "Custom",
    "EnqueueKeywords",
    "EnqueueMiddleware",
    "Enqueued",
    "ExecutionResult",
    "Exponential",
    "FireStatus",
    "Fired",
    "Fixed",
    "Gaps",
    "Holdfast",
    "HoldfastError",
    "InvalidInput",
    "Jitter",
    "Job",
    "JobBuilder",
    "JobDefinition",
    "JobRequest",
    "LeaseError",
    "Limits",
    "Linear",
    "Missed",
    "NoDelay",
    "OnExhausted",
    "QueueSettings",
    "Retry",
    "RetryPolicy",
    "Schedule",
    "ScheduleBuilder",
    "ScheduleInfo",
    "Schedules",
    "Signer",
    "Snooze",
    "State",
    "Task",
    "TimeWindow",
    "Unrecoverable",
    "Worker",
    "WorkerOptions",
    "__version__",
    "connect",
    "open_signer",
    "register_codec",
]

_MODULES = {
    "holdfast.aio": ("AsyncClient",),
    "holdfast.app": ("Holdfast",),
    "holdfast.client": ("Client", "EnqueueKeywords"),
    "holdfast.cron.builder": ("ScheduleBuilder",),
    "holdfast.cron.expression": ("CronExpression",),
    "holdfast.cron.reports": ("Fired", "FireStatus"),
    "holdfast.cron.runner": ("CronRunner",),
    "holdfast.cron.schedule": ("Missed", "Schedule"),
    "holdfast.cron.schedules": ("ScheduleInfo", "Schedules"),
    "holdfast.cron.window": ("TimeWindow",),
    "holdfast.enqueue_middleware": ("EnqueueMiddleware",),
    "holdfast.errors": ("HoldfastError", "InvalidInput", "LeaseError"),
    "holdfast.model.definition": ("JobBuilder", "JobDefinition"),
    "holdfast.model.execution": ("ExecutionResult",),
    "holdfast.model.job": ("Job", "State"),
    "holdfast.model.lease": ("Enqueued",),
    "holdfast.model.queue_settings": ("Gaps", "OnExhausted", "QueueSettings"),
    "holdfast.model.request": ("JobRequest",),
    "holdfast.model.retry": ("Custom", "Exponential", "Fixed", "Jitter", "Linear", "NoDelay", "RetryPolicy"),
    "holdfast.signing": ("open_signer",),
    "holdfast.task": ("Task",),
    "holdfast.wire.codec": ("Codec", "register_codec"),
    "holdfast.wire.signing": ("Signer",),
    "holdfast.worker.context": ("Context",),
    "holdfast.worker.control": ("Retry", "Snooze", "Unrecoverable"),
    "holdfast.worker.limits": ("Limits",),
    "holdfast.worker.options": ("WorkerOptions",),
    "holdfast.worker.worker": ("Worker",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow to import, rarely needed

        try:
            value: object = version("holdfast")
        except PackageNotFoundError:  # the source without an installation, such as a zip for Spark executors
            value = "unknown"
    elif name in _MODULE_OF:
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    else:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, for completion in shells and notebooks."""
    return sorted({*globals(), *__all__})
