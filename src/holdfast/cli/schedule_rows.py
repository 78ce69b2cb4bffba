"""Schedules as commands show them: what the store knows, and what an app declares."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from holdfast.app import Holdfast
from holdfast.cli import json_values
from holdfast.cli.app_commands import load_app
from holdfast.cli.session import CommandFailed, ExitCode, Session
from holdfast.clock import MINUTE, from_datetime, wall_clock
from holdfast.cron.entries import Source
from holdfast.cron.schedule import Schedule
from holdfast.cron.schedules import ScheduleInfo

PAGE_SCHEDULES = 1_000
NOT_STARTED = "not started"  # no scheduler has declared it yet
ELSEWHERE = "elsewhere"  # it fires only in other environments than that of the settings
OVERDUE = "overdue"  # it should have fired: no scheduler is running
OVERDUE_AFTER = MINUTE
APP_OPTION = click.option(
    "--app", "app_path", metavar="MODULE:APP", help="The app of the schedules; by default that of the settings."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One schedule, and whether it fires."""

    schedule: Schedule
    status: str
    source: Source = Source.CODE
    next_fire: datetime | None = None
    last_fire: datetime | None = None
    last_job: str | None = None
    dropped: str = ""  # why the last fire that did not become a job was dropped

    def to_json(self) -> dict[str, Any]:
        """Return the schedule for programs."""
        schedule = self.schedule
        return {
            "name": schedule.name,
            "status": self.status,
            "source": self.source,
            "type": schedule.type,
            "queue": schedule.queue,
            "expression": schedule.expression,
            "timezone": schedule.timezone,
            "between": None if schedule.window is None else str(schedule.window),
            "words": schedule.describe(),
            "next_fire": _instant(self.next_fire),
            "last_fire": _instant(self.last_fire),
            "last_job": self.last_job,
            "dropped": self.dropped or None,
            "environments": list(schedule.environments),
            "depends_on": list(schedule.depends_on),
        }


def open_app(session: Session, path: str | None) -> Holdfast:
    """Return the app of an option or of the settings; without both, an app without handlers on the store."""
    logging.getLogger("holdfast").addHandler(logging.NullHandler())  # the answer of the command says what was done
    if path or session.settings.app:
        return load_app(path, session)
    app = Holdfast(driver=session.store())
    app.use_settings(session.settings)
    return app


def read_rows(app: Holdfast) -> list[ScheduleRow]:
    """Return all schedules of the store, and those that the app declares and the store does not have, by name."""
    rows = {info.schedule.name: _stored_row(app, info) for info in _list_all(app)}
    for schedule in app.declared_schedules():
        rows.setdefault(schedule.name, ScheduleRow(schedule=schedule, status=NOT_STARTED))
    return [rows[name] for name in sorted(rows)]


def find_row(app: Holdfast, name: str) -> ScheduleRow:
    """Return one schedule. An unknown name is an error that lists similar ones."""
    info = app.schedules.get(name)
    if info is not None:
        return _stored_row(app, info)
    rows = {row.schedule.name: row for row in read_rows(app)}
    if name in rows:
        return rows[name]
    nearest = difflib.get_close_matches(name, rows, n=3)
    hint = f"; did you mean {' or '.join(nearest)}?" if nearest else ""
    raise CommandFailed(ExitCode.NOT_FOUND, f"no schedule {name} in this space{hint}")


def _list_all(app: Holdfast) -> Iterator[ScheduleInfo]:
    after = ""
    while page := app.schedules.list(after=after, limit=PAGE_SCHEDULES):
        yield from page
        after = page[-1].schedule.name


def _stored_row(app: Holdfast, info: ScheduleInfo) -> ScheduleRow:
    return ScheduleRow(
        schedule=info.schedule,
        status=_status(app, info),
        source=info.source,
        next_fire=info.next_fire,
        last_fire=info.last_fire,
        last_job=info.last_job,
        dropped=info.dropped_reason,
    )


def _status(app: Holdfast, info: ScheduleInfo) -> str:
    if not info.schedule.fires_in(app.settings.environment):
        return ELSEWHERE
    is_late = info.next_fire is not None and wall_clock() - from_datetime(info.next_fire) > OVERDUE_AFTER
    return OVERDUE if is_late and info.declared else info.status


def _instant(moment: datetime | None) -> str | None:
    return None if moment is None else json_values.instant(from_datetime(moment))
