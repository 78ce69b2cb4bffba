"""Schedules: cron expressions in a time zone, and the jobs that they enqueue.

The names of ``__all__`` are part of the public API. Each is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy_names import lazy_names

if TYPE_CHECKING:
    from holdfast.cron.builder import ScheduleBuilder
    from holdfast.cron.expression import CronExpression
    from holdfast.cron.reports import Fired, FireStatus
    from holdfast.cron.runner import CronRunner
    from holdfast.cron.schedule import Missed, Schedule
    from holdfast.cron.schedules import ScheduleInfo, Schedules
    from holdfast.cron.window import TimeWindow

__all__ = [
    "CronExpression",
    "CronRunner",
    "FireStatus",
    "Fired",
    "Missed",
    "Schedule",
    "ScheduleBuilder",
    "ScheduleInfo",
    "Schedules",
    "TimeWindow",
]

_MODULES = {
    "holdfast.cron.builder": ("ScheduleBuilder",),
    "holdfast.cron.expression": ("CronExpression",),
    "holdfast.cron.reports": ("Fired", "FireStatus"),
    "holdfast.cron.runner": ("CronRunner",),
    "holdfast.cron.schedule": ("Missed", "Schedule"),
    "holdfast.cron.schedules": ("ScheduleInfo", "Schedules"),
    "holdfast.cron.window": ("TimeWindow",),
}

__getattr__ = lazy_names(__name__, _MODULES)
