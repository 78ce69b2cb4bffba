"""``holdfast ledger``: the record of every ended lease: the last rows, or the rows after a cursor."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import click

from holdfast.cli import json_values
from holdfast.cli.command import Group
from holdfast.cli.commands.ledger_readers import readers
from holdfast.cli.output import Column
from holdfast.cli.parameters import DURATION
from holdfast.cli.session import Session
from holdfast.clock import monotonic, to_datetime
from holdfast.drivers.requests import LedgerEnd, LedgerTail
from holdfast.drivers.store import Store
from holdfast.model import bounds
from holdfast.model.control_characters import escape_control_characters
from holdfast.model.fingerprint import failure_line
from holdfast.model.ledger import Ending, LedgerRow

PAGE_SIZE = 1_000
POLL_INTERVAL_SECONDS = 0.25

RowFilter = Callable[[LedgerRow], bool]


@click.group(cls=Group, invoke_without_command=True)
@click.option("--after", metavar="CURSOR", help="Show the rows after a cursor.")
@click.option("--oldest", is_flag=True, help="Start at the oldest row.")
@click.option(
    "--limit", type=click.IntRange(1, bounds.MAX_BATCH_ITEMS), default=20, show_default=True, help="The most to show."
)
@click.option("--queue", metavar="NAME", help="Only rows of this queue.")
@click.option("--type", "type_", metavar="TYPE", help="Only rows of this type.")
@click.option("--job", "job_id", metavar="ID", help="Only rows of this job.")
@click.option(
    "--ending",
    "endings",
    type=click.Choice([ending.value for ending in Ending]),
    multiple=True,
    help="Only rows with this ending; repeatable.",
)
@click.option("--follow", is_flag=True, help="Show new rows as they are written, until interrupted or --for is over.")
@click.option("--for", "length", type=DURATION, metavar="DURATION", help="Follow this long.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines: the rows, then the cursor after them.")
@click.pass_context
def ledger(
    context: click.Context,
    *,
    after: str | None,
    limit: int,
    queue: str | None,
    type_: str | None,
    job_id: str | None,
    endings: tuple[str, ...],
    length: timedelta | None,
    oldest: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Show how leases and jobs ended.

    Without --after or --oldest, the last rows are shown, and a filter reads back as far as it must. The cursor advances
    over every row that was read, also over rows that the filters hide. With --follow, --limit applies only to the rows
    that already exist.
    """
    if context.invoked_subcommand is not None:
        return
    session = context.ensure_object(Session)
    if after is not None and oldest:
        raise click.UsageError("wanted either --after or --oldest, got both")
    if length is not None and not follow:
        raise click.UsageError("--for: wanted --follow too")
    store = session.store()

    def matches(row: LedgerRow) -> bool:
        return (
            (queue is None or row.queue == queue)
            and (type_ is None or row.type == type_)
            and (job_id is None or row.job_id == job_id)
            and (not endings or row.ending in endings)
        )

    if after is None and not oldest:
        rows, cursor = last_rows(store, limit, matches)
    else:
        rows, cursor = _first_rows(store, after, limit, matches)
    _print_rows(session, rows, cursor, as_json=as_json, follow=follow)
    if follow:
        _follow(session, store, cursor, matches, length, as_json=as_json)


ledger.add_command(readers)


def last_rows(store: Store, limit: int, matches: RowFilter) -> tuple[list[LedgerRow], str]:
    """Return the last matching rows, and the cursor of the end. Reads backwards, until there are enough rows."""
    end = store.do(LedgerEnd())
    before: str | None = end
    rows: list[LedgerRow] = []
    page_size = limit
    while before is not None and len(rows) < limit:
        page = store.do(LedgerTail(before=before, limit=page_size))
        rows = [*(row for row in page if matches(row)), *rows]
        before = page.cursor
        page_size = PAGE_SIZE
    return rows[-limit:], end


def _first_rows(store: Store, after: str | None, limit: int, matches: RowFilter) -> tuple[list[LedgerRow], str]:
    """The first matching rows after a cursor. Nothing is read past the last of them, so the new cursor skips no row."""
    rows: list[LedgerRow] = []
    while True:
        page = store.ledger(after, limit - len(rows))
        assert page.cursor is not None
        after = page.cursor
        rows += [row for row in page if matches(row)]
        if not page.items or len(rows) == limit:
            return rows, after


def _follow(
    session: Session, store: Store, cursor: str, matches: RowFilter, length: timedelta | None, *, as_json: bool
) -> None:
    deadline = None if length is None else monotonic() + length.total_seconds()
    while deadline is None or monotonic() < deadline:
        page = store.ledger(cursor, PAGE_SIZE)
        assert page.cursor is not None
        cursor = page.cursor
        if page.items:
            _print_rows(session, [row for row in page if matches(row)], cursor, as_json=as_json, follow=True)
        else:
            left = POLL_INTERVAL_SECONDS if deadline is None else deadline - monotonic()
            time.sleep(max(0.0, min(POLL_INTERVAL_SECONDS, left)))
    if not as_json:
        session.output.print_note(f"continue: --after {cursor}")


def _print_rows(session: Session, rows: list[LedgerRow], cursor: str, *, as_json: bool, follow: bool) -> None:
    output = session.output
    if as_json:
        for row in rows:
            output.print_json_line(json_values.ledger_row(row))
        output.print_json_line({"cursor": cursor})
    elif follow:  # no table: the widths of later rows are not known yet
        for row in rows:
            detail = escape_control_characters(why(row))
            ended = _time_of_day(row.ended_at)
            output.print_line(f"{ended}  {row.ending:<9}  {row.job_id}  {row.queue}  {row.type}  {detail}".rstrip())
    elif rows:
        output.print_table(
            [
                Column(title="ENDED", align_right=True),
                Column(title="ENDING"),
                Column(title="RUN", align_right=True),
                Column(title="JOB"),
                Column(title="TYPE", truncate=True),
                Column(title="WHY", truncate=True),
            ],
            [(output.age(row.ended_at), row.ending, row.attempt, row.job_id, row.type, why(row)) for row in rows],
        )
        output.print_note(f"continue: --after {cursor}")
    else:
        output.print_note(f"no row matches; continue: --after {cursor}")


def why(row: LedgerRow) -> str:
    """The exception of a failed attempt, else the detail of the row."""
    return failure_line(row.error).strip() or row.detail


def _time_of_day(instant: int) -> str:
    return to_datetime(instant).strftime("%H:%M:%SZ")
