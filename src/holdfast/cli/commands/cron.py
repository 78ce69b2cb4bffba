"""``holdfast cron``: list schedules, show their next fires and their history, run them, and change them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import click

from holdfast.app import Holdfast
from holdfast.cli.command import Group
from holdfast.cli.commands.cron_fires import backfill, run, trigger
from holdfast.cli.commands.cron_history import history
from holdfast.cli.output import Column
from holdfast.cli.parameters import INSTANT
from holdfast.cli.schedule_rows import APP_OPTION, NOT_STARTED, find_row, open_app, read_rows
from holdfast.cli.schedule_times import age, fire_to_json, local_time, with_age
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.clock import to_datetime
from holdfast.cron.expression import CronExpression

_JSON_LIST = click.option("--json", "as_json", is_flag=True, help="JSON: a list of schedules.")


@click.group(cls=Group)
def cron() -> None:
    """List, run and change schedules."""


@cron.command("list")
@APP_OPTION
@_JSON_LIST
@pass_session
def list_(session: Session, app_path: str | None, *, as_json: bool) -> None:
    """List schedules, and when they fire next.

    These are the schedules of the store, and those of the app that no scheduler has started yet. A schedule that
    `cron disable` has stopped is paused.
    """
    app, output = open_app(session, app_path), session.output
    rows = read_rows(app)
    if as_json:
        output.print_json([row.to_json() for row in rows])
        return
    if not rows:
        output.print_note("no schedules in this space")
        return
    output.print_table(
        [
            Column(title="NAME", truncate=True),
            Column(title="STATUS"),
            Column(title="NEXT"),
            Column(title="LAST", align_right=True),
            Column(title="WHEN", truncate=True),
            Column(title="ZONE", truncate=True),
            Column(title="TYPE", truncate=True),
        ],
        [
            (
                row.schedule.name,
                row.status,
                local_time(row.next_fire),
                age(output, row.last_fire),
                row.schedule.describe(),
                row.schedule.timezone,
                row.schedule.type,
            )
            for row in rows
        ],
    )


@cron.command("next")
@click.argument("what", metavar="NAME|EXPRESSION")
@click.option("--count", type=click.IntRange(1, 1_000), default=5, show_default=True, help="How many fires.")
@click.option("--timezone", metavar="ZONE", help="Of an expression; by default UTC.")
@click.option("--from", "start", type=INSTANT, metavar="INSTANT", help="Fires after this; by default after now.")
@APP_OPTION
@click.option("--json", "as_json", is_flag=True, help="JSON: the words, and a list of fires.")
@pass_session
def next_(
    session: Session,
    what: str,
    *,
    count: int,
    timezone: str | None,
    start: datetime | None,
    app_path: str | None,
    as_json: bool,
) -> None:
    """Show the next fires, in words and local time.

    An expression is one argument: holdfast cron next "0 6 * * 1-5" --timezone Europe/Berlin
    """
    if " " in what.strip() or what.startswith("@"):
        expression = CronExpression(what, timezone or "UTC")
    elif timezone is not None:
        raise click.UsageError("--timezone: wanted an expression, because a schedule has a time zone of its own")
    else:
        expression = find_row(open_app(session, app_path), what).schedule.cron
    output = session.output
    fires = _next_fires(expression, start or to_datetime(output.now()), count)
    if as_json:
        output.print_json(
            {
                "expression": expression.text,
                "timezone": expression.timezone,
                "words": expression.describe(),
                "fires": [fire_to_json(fire) for fire in fires],
            }
        )
        return
    output.print_line(f"{expression.describe()}, {expression.timezone}")
    for fire in fires:
        output.print_line(with_age(output, fire))


def _next_fires(expression: CronExpression, start: datetime, count: int) -> list[datetime]:
    fires: list[datetime] = []
    fire = expression.next_after(start.astimezone(UTC))
    while fire is not None and len(fires) < count:
        fires.append(fire)
        fire = expression.next_after(fire)
    return fires


@cron.command()
@click.argument("name")
@APP_OPTION
@click.option("--json", "as_json", is_flag=True, help="JSON: the schedule after the change.")
@pass_session
def enable(session: Session, name: str, app_path: str | None, *, as_json: bool) -> None:
    """Let a schedule fire again from now on."""
    app = open_app(session, app_path)
    _change(session, app, name, app.schedules.resume, as_json=as_json)


@cron.command()
@click.argument("name")
@APP_OPTION
@click.option("--json", "as_json", is_flag=True, help="JSON: the schedule after the change.")
@pass_session
def disable(session: Session, name: str, app_path: str | None, *, as_json: bool) -> None:
    """Stop a schedule on every node.

    It fires nothing until `cron enable`. Jobs that it has enqueued already still run.
    """
    app = open_app(session, app_path)
    _change(session, app, name, app.schedules.pause, as_json=as_json)


def _change(session: Session, app: Holdfast, name: str, change: Callable[[str], object], *, as_json: bool) -> None:
    if find_row(app, name).status == NOT_STARTED:
        text = f"no scheduler has started {name} yet: change enabled() in the code, or start one first"
        raise CommandFailed(ExitCode.FAILED, text)
    change(name)
    row = find_row(app, name)
    if as_json:
        session.output.print_json(row.to_json())
        return
    next_fire = f", next {with_age(session.output, row.next_fire)}" if row.next_fire is not None else ""
    session.output.print_line(f"{name}: {row.status}{next_fire}")


for command in (run, trigger, backfill, history):
    cron.add_command(command)
