"""``holdfast ledger readers``: who reads the ledger, and what trim and purge therefore keep."""

from __future__ import annotations

import click

from holdfast.cli import json_values
from holdfast.cli.command import Group
from holdfast.cli.output import Column
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.drivers.requests import Read, Scan, Write
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, LedgerTrimmed
from holdfast.model.ledger_reader import KIND, forget_reader, parse_reader
from holdfast.model.registry import Entry

UNREADABLE = "unreadable"
LOST_ROWS = "rows were trimmed before it read them"


@click.group(cls=Group)
def readers() -> None:
    """Show or remove registered readers of the ledger.

    `trim` and `purge` keep the ledger rows that a reader has not read, and the jobs of these rows.
    """


@readers.command("list")
@click.option("--json", "as_json", is_flag=True, help='JSON: {"items": [...]}.')
@pass_session
def list_(session: Session, *, as_json: bool) -> None:
    """List the readers of one space, and since when the first row waits for each."""
    store, output = session.store(), session.output
    entries: list[Entry] = []
    while page := store.do(Scan(kind=KIND, after=entries[-1].key if entries else "")):
        entries += page
    shown = [(entry, *read_progress(store, entry)) for entry in entries]
    if as_json:
        items = [
            {
                "name": entry.key,
                "unread_since": json_values.instant(unread_since),
                "problem": problem or None,
                "expires_at": json_values.instant(entry.expires_at),
            }
            for entry, unread_since, problem in shown
        ]
        output.print_json({"items": items})
        return
    if not shown:
        output.print_note("no reader is registered")
        return
    output.print_table(
        [
            Column(title="NAME", truncate=True),
            Column(title="UNREAD", align_right=True),
            Column(title="PROBLEM"),
            Column(title="EXPIRES"),
        ],
        [
            (
                entry.key,
                "none" if unread_since is None else output.age(unread_since),
                problem,
                "never" if entry.expires_at is None else output.instant(entry.expires_at),
            )
            for entry, unread_since, problem in shown
        ],
    )


def read_progress(store: Store, entry: Entry) -> tuple[int | None, str]:
    """Return when the first row was written that a reader has not read, and what is wrong with the reader."""
    try:
        page = store.ledger(parse_reader(entry).cursor, 1)
    except LedgerTrimmed:
        return None, LOST_ROWS
    except InvalidInput:
        return None, UNREADABLE
    return (page.items[0].ended_at if page.items else None), ""


@readers.command()
@click.argument("name", metavar="NAME")
@pass_session
def remove(session: Session, name: str) -> None:
    """Remove a reader that is gone: `trim` and `purge` no longer wait for it.

    A reader that still runs registers itself again, as a new one.
    """
    store = session.store()
    if store.do(Read(kind=KIND, keys=[name])) == [None]:
        raise CommandFailed(ExitCode.NOT_FOUND, f"no reader {name} is registered in this space")
    store.do(Write(changes=[forget_reader(name)]))
    session.output.print_line(f"removed the reader {name}")
