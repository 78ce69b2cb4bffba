"""``holdfast cron history``: how the jobs of a schedule ended, from the ledger."""

from __future__ import annotations

from uuid import UUID

import click

from holdfast.cli import json_values
from holdfast.cli.command import Command
from holdfast.cli.commands.ledger import last_rows, why
from holdfast.cli.output import Column
from holdfast.cli.schedule_rows import APP_OPTION, find_row, open_app
from holdfast.cli.schedule_times import local_time
from holdfast.cli.session import Session, pass_session
from holdfast.clock import MILLISECOND, from_datetime
from holdfast.cron.fire import META_FIRE, META_SCHEDULE, fire_id, fire_text
from holdfast.cron.reports import fire_instant
from holdfast.cron.schedule import Schedule
from holdfast.drivers.store import Store
from holdfast.model import bounds, duration, instant
from holdfast.model.ledger import LedgerRow

MAX_READ_JOBS = 2_000  # of the same type, to see whether they are of this schedule


@click.command(cls=Command)
@click.argument("name")
@click.option(
    "--limit", type=click.IntRange(1, bounds.MAX_BATCH_ITEMS), default=20, show_default=True, help="The most to show."
)
@APP_OPTION
@click.option("--json", "as_json", is_flag=True, help="JSON lines: a row of the ledger each, with its fire.")
@pass_session
def history(session: Session, name: str, *, limit: int, app_path: str | None, as_json: bool) -> None:
    """Show how the jobs of a schedule ended.

    The newest is the last one. A job that was retried has a row for each attempt. Jobs that wait or run are not shown:
    see `job list`.
    """
    app, output = open_app(session, app_path), session.output
    schedule = find_row(app, name).schedule
    fires = FireFinder(app.driver, schedule)
    rows, _ = last_rows(app.driver, limit, lambda row: fires.find(row) is not None)
    found = [(row, fires.find(row)) for row in rows]
    if as_json:
        for row, fire in found:
            output.print_json_line({"schedule": name, "fire": fire_text(fire or 0), **json_values.ledger_row(row)})
        return
    if not rows:
        output.print_note(f"no job of {name} has ended yet")
        return
    output.print_table(
        [
            Column(title="FIRE"),
            Column(title="ENDING"),
            Column(title="RUN", align_right=True),
            Column(title="TOOK", align_right=True),
            Column(title="JOB"),
            Column(title="WHY", truncate=True),
        ],
        [
            (local_time(fire_instant(schedule, fire or 0)), row.ending, row.attempt, _took(row), row.job_id, why(row))
            for row, fire in found
        ],
    )


class FireFinder:
    """Finds the fire of a ledger row: in the id of the job, which is made of the fire, else in its meta values."""

    def __init__(self, store: Store, schedule: Schedule) -> None:
        self._store = store
        self._schedule = schedule
        self._known: dict[str, int | None] = {}  # by job id
        self._reads = 0

    def find(self, row: LedgerRow) -> int | None:
        """Return the instant of the fire; None for a job of something else."""
        if row.type != self._schedule.type:
            return None
        if row.job_id not in self._known:
            self._known[row.job_id] = self._fire_of_id(row.job_id) or self._fire_of_job(row.job_id)
        return self._known[row.job_id]

    def _fire_of_id(self, job_id: str) -> int | None:
        try:
            fire = (UUID(job_id).int >> 80) * MILLISECOND  # UUID version 7
            return fire if fire_id(self._schedule, fire) == job_id else None
        except (ValueError, OverflowError):
            return None

    def _fire_of_job(self, job_id: str) -> int | None:
        """A trigger, or a fire of an earlier definition: as long as its job is kept."""
        self._reads += 1
        job = self._store.get(job_id) if self._reads <= MAX_READ_JOBS else None
        if job is None or job.meta.get(META_SCHEDULE) != self._schedule.name:
            return None
        return from_datetime(instant.parse(META_FIRE, str(job.meta.get(META_FIRE))))


def _took(row: LedgerRow) -> str:
    start = row.started_at or row.reserved_at
    return "" if start is None else duration.format_rounded(row.ended_at - start)
