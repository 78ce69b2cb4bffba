"""``holdfast cron run``, ``trigger`` and ``backfill``: the commands that enqueue jobs of schedules."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from datetime import datetime

import click

from holdfast.app import Holdfast
from holdfast.cli.app_commands import load_app
from holdfast.cli.command import Command
from holdfast.cli.early_signals import SIGNALS, stop_requested
from holdfast.cli.output import Column
from holdfast.cli.parameters import INSTANT
from holdfast.cli.schedule_rows import APP_OPTION, find_row, open_app
from holdfast.cli.schedule_times import fire_to_json, local_time
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.cron.reports import Fired, FireStatus
from holdfast.cron.runner import CronRunner
from holdfast.cron.schedules import MAX_BACKFILL_FIRES
from holdfast.observability.log_output import configure_logging

MAX_SHOWN_FIRES = 20  # of a backfill, before the question
JOIN_SECONDS = 0.5  # between two looks at the thread: signals arrive in the main thread

_JSON_FIRES = click.option("--json", "as_json", is_flag=True, help="JSON: a list of fires with their jobs.")
_FAILED = frozenset({FireStatus.FAILED, FireStatus.BLOCKED})


@click.command(cls=Command)
@click.argument("app_path", metavar="[MODULE:APP]", required=False)
@click.option("--once", is_flag=True, help="Fire what is due and end: the default.")
@click.option("--loop", is_flag=True, help="Fire until a signal stops the command.")
@click.option("--now", type=INSTANT, metavar="INSTANT", help="With --once: fire as if it were this instant.")
@_JSON_FIRES
@pass_session
def run(session: Session, app_path: str | None, *, once: bool, loop: bool, now: datetime | None, as_json: bool) -> None:
    """Fire what is due, once or in a loop.

    These are the schedules of the app, and the dynamic schedules of the space. A schedule with a queue is enqueued.
    With --once, one without a queue runs at once, and the exit code is 1 if it fails. With --loop, everything is
    enqueued. Any number of schedulers may run.
    """
    if loop and (once or now is not None):
        raise click.UsageError("--loop: wanted neither --once nor --now beside it")
    configure_logging(session.settings)
    app = load_app(app_path, session)
    try:
        if loop:
            _run_loop(session, app)
        else:
            _print_fired(session, CronRunner(app).run(now), as_json=as_json)
    finally:
        app.close()


def _run_loop(session: Session, app: Holdfast) -> None:
    """Run in a thread: in this one a signal could arrive while the lock of the event is held."""
    runner = CronRunner(app)
    thread = threading.Thread(target=runner.run_loop, args=(stop_requested,), name="holdfast-cron", daemon=True)
    for number in SIGNALS:
        signal.signal(number, lambda *_: stop_requested.set())
    session.output.print_note(f"{runner.name}: firing {len(app.declared_schedules())} schedules, and dynamic ones")
    thread.start()
    while thread.is_alive():
        thread.join(JOIN_SECONDS)


def _print_fired(session: Session, fired: Sequence[Fired], *, as_json: bool) -> None:
    _print_fires(session, fired, as_json=as_json)
    if not fired and not as_json:
        session.output.print_note("nothing is due")
    failed = [one.schedule for one in fired if one.status in _FAILED]
    if failed:
        raise CommandFailed(ExitCode.FAILED, f"failed: {', '.join(dict.fromkeys(failed))}")


@click.command(cls=Command)
@click.argument("name")
@APP_OPTION
@_JSON_FIRES
@pass_session
def trigger(session: Session, name: str, *, app_path: str | None, as_json: bool) -> None:
    """Enqueue one job of a schedule now.

    Also of a disabled one. Its next fire stays as it is.
    """
    app = open_app(session, app_path)
    fired = app.schedules.trigger(find_row(app, name).schedule.name)
    if as_json:
        session.output.print_json([_fired_to_json(fired)])
    else:
        session.output.print_line(str(fired.job_id))


@click.command(cls=Command)
@click.argument("name")
@click.option("--from", "start", type=INSTANT, metavar="INSTANT", required=True, help="The first instant.")
@click.option("--to", "end", type=INSTANT, metavar="INSTANT", required=True, help="Before this instant.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=MAX_BACKFILL_FIRES,
    show_default=True,
    help="Refuse a period with more fires.",
)
@click.option("--dry-run", is_flag=True, help="Only show the fires.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@APP_OPTION
@_JSON_FIRES
@pass_session
def backfill(
    session: Session,
    name: str,
    *,
    start: datetime,
    end: datetime,
    limit: int,
    app_path: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Enqueue the fires of a past period.

    Shows the fires and asks for confirmation. A fire whose job the store still has is not enqueued again.
    """
    app, output = open_app(session, app_path), session.output
    name = find_row(app, name).schedule.name
    planned = app.schedules.backfill(name, start, end, limit=limit)
    if dry_run or not planned:
        _print_fires(session, planned, as_json=as_json)
        if not planned and not as_json:
            output.print_note(f"{name} does not fire in this period")
        return
    if not as_json:
        _print_fires(session, planned[:MAX_SHOWN_FIRES], as_json=False)
        if len(planned) > MAX_SHOWN_FIRES:
            output.print_line(f"and {len(planned) - MAX_SHOWN_FIRES} later fires")
    if not yes and not output.confirm(f"enqueue {len(planned)} jobs?"):
        raise CommandFailed(ExitCode.FAILED, "not confirmed, nothing was enqueued (--yes skips the question)")
    done = app.schedules.backfill(name, start, end, limit=limit, preview=False)
    if as_json:
        _print_fires(session, done, as_json=True)
        return
    existed = sum(one.status is FireStatus.EXISTED for one in done)
    output.print_line(f"enqueued {len(done) - existed}" + (f", {existed} had a job already" if existed else ""))


def _print_fires(session: Session, fired: Sequence[Fired], *, as_json: bool) -> None:
    if as_json:
        session.output.print_json([_fired_to_json(one) for one in fired])
        return
    if fired:
        columns = [
            Column(title="SCHEDULE", truncate=True),
            Column(title="FIRE"),
            Column(title="STATUS"),
            Column(title="JOB"),
            Column(title="WHY", truncate=True),
        ]
        rows = [(one.schedule, local_time(one.fire), one.status, one.job_id or "", one.error) for one in fired]
        session.output.print_table(columns, rows)


def _fired_to_json(fired: Fired) -> dict[str, object]:
    return {
        "schedule": fired.schedule,
        **fire_to_json(fired.fire),
        "status": fired.status,
        "job_id": fired.job_id,
        "error": fired.error or None,
    }
