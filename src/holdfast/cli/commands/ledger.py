"""``holdfast ledger``: the record of every ending, its last rows or on from a cursor."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta

import click

from holdfast.cli import json_values
from holdfast.cli.output import Column, visible
from holdfast.cli.parameters import LENGTH
from holdfast.cli.session import Command, Session, pass_session
from holdfast.clock import monotonic, to_datetime
from holdfast.drivers.contract import Store
from holdfast.model import bounds
from holdfast.model.ledger import Ending, LedgerRow

PAGE = 1_000
LOOK_EVERY = 0.25  # seconds

Wanted = Callable[[LedgerRow], bool]


@click.command(cls=Command)
@click.option("--after", metavar="CURSOR", help="The rows behind a cursor, instead of the last ones.")
@click.option("--oldest", is_flag=True, help="Begin at the oldest row that is kept.")
@click.option(
    "--limit", type=click.IntRange(1, bounds.MAX_BATCH_ITEMS), default=20, show_default=True, help="The most to show."
)
@click.option("--queue", metavar="NAME", help="Only of this queue.")
@click.option("--type", "type_", metavar="TYPE", help="Only of this type.")
@click.option("--job", "job_id", metavar="ID", help="Only of this job.")
@click.option(
    "--ending",
    "endings",
    type=click.Choice([ending.value for ending in Ending]),
    multiple=True,
    help="Only these; repeatable.",
)
@click.option("--follow", is_flag=True, help="Go on as rows are written, until interrupted or --for is over.")
@click.option("--for", "length", type=LENGTH, metavar="LENGTH", help="Follow this long.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines: the rows, then the cursor behind them.")
@pass_session
def ledger(
    session: Session,
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

    Without --after or --oldest the last rows, for which the whole ledger is read. Filters choose among rows that are
    read; the cursor counts all of them. With --follow, --limit is about the rows before it.
    """
    if after is not None and oldest:
        raise click.UsageError("wanted either --after or --oldest, got both")
    if length is not None and not follow:
        raise click.UsageError("--for: wanted --follow beside it")
    store = session.store()

    def wanted(row: LedgerRow) -> bool:
        return (
            (queue is None or row.queue == queue)
            and (type_ is None or row.type == type_)
            and (job_id is None or row.job_id == job_id)
            and (not endings or row.ending in endings)
        )

    if after is None and not oldest:
        rows, cursor = _last(store, limit, wanted)
    else:
        rows, cursor = _first(store, after, limit, wanted)
    _show(session, rows, cursor, as_json=as_json, follow=follow)
    if follow:
        _follow(session, store, cursor, wanted, length, as_json=as_json)


def _last(store: Store, limit: int, wanted: Wanted) -> tuple[list[LedgerRow], str]:
    """The last rows: a ledger is read forwards only."""
    kept: deque[LedgerRow] = deque(maxlen=limit)
    cursor: str | None = None
    while True:
        page = store.ledger(cursor, bounds.MAX_BATCH_ITEMS)
        assert page.cursor is not None
        cursor = page.cursor
        kept.extend(row for row in page if wanted(row))
        if not page.items:
            return list(kept), cursor


def _first(store: Store, after: str | None, limit: int, wanted: Wanted) -> tuple[list[LedgerRow], str]:
    """The first rows behind a cursor; never reads past the last one shown, so that the cursor leads on from there."""
    found: list[LedgerRow] = []
    while True:
        page = store.ledger(after, limit - len(found))
        assert page.cursor is not None
        after = page.cursor
        found += [row for row in page if wanted(row)]
        if not page.items or len(found) == limit:
            return found, after


def _follow(
    session: Session, store: Store, cursor: str, wanted: Wanted, length: timedelta | None, *, as_json: bool
) -> None:
    deadline = None if length is None else monotonic() + length.total_seconds()
    while deadline is None or monotonic() < deadline:
        page = store.ledger(cursor, PAGE)
        assert page.cursor is not None
        cursor = page.cursor
        if page.items:
            _show(session, [row for row in page if wanted(row)], cursor, as_json=as_json, follow=True)
        else:
            left = LOOK_EVERY if deadline is None else deadline - monotonic()
            time.sleep(max(0.0, min(LOOK_EVERY, left)))
    if not as_json:
        session.screen.note(f"go on: --after {cursor}")


def _show(session: Session, rows: list[LedgerRow], cursor: str, *, as_json: bool, follow: bool) -> None:
    screen = session.screen
    if as_json:
        for row in rows:
            screen.document_line(json_values.ledger_row(row))
        screen.document_line({"cursor": cursor})
    elif follow:  # rows that come one by one: no table can know its widths
        for row in rows:
            told = visible(row.detail or (row.error.strip().splitlines() or [""])[-1])
            screen.line(
                f"{_clock(row.ended_at)}  {row.ending:<9}  {row.job_id}  {row.queue}  {row.type}  {told}".rstrip()
            )
    elif rows:
        screen.table(
            [
                Column(title="ENDED", right=True),
                Column(title="ENDING"),
                Column(title="RUN", right=True),
                Column(title="JOB"),
                Column(title="TYPE", cut=True),
            ],
            [(screen.ago(row.ended_at), row.ending, row.attempt, row.job_id, row.type) for row in rows],
        )
        screen.note(f"go on: --after {cursor}")
    else:
        screen.note(f"no row fits; go on: --after {cursor}")


def _clock(instant: int) -> str:
    return to_datetime(instant).strftime("%H:%M:%SZ")
