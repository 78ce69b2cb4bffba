"""``holdfast space``: the spaces of a store."""

from __future__ import annotations

from collections.abc import Iterator

import click

from holdfast.cli.command import Group
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import RemoveSpace, Spaces
from holdfast.drivers.store import Store
from holdfast.model import bounds


@click.group(cls=Group)
def space() -> None:
    """List or remove the spaces (tenants) of a store."""


@space.command("list")
@click.option("--json", "as_json", is_flag=True, help='JSON: {"items": [...]}.')
@pass_session
def list_(session: Session, *, as_json: bool) -> None:
    """List the spaces that have rows, in order of their names."""
    names = list(space_names(space_admin(session)))
    if as_json:
        session.output.print_json({"items": names})
        return
    for name in names:
        session.output.print_line(name)
    if not names:
        session.output.print_note("no space has rows")


@space.command()
@click.argument("name", metavar="NAME")
@click.option("--force", is_flag=True, help="Also with jobs in flight: their workers lose them.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help='JSON: {"rows": ...}.')
@pass_session
def remove(session: Session, name: str, *, force: bool, yes: bool, as_json: bool) -> None:
    """Remove a space permanently: its jobs, dead letters, ledger, keys, settings and registry.

    Asks for confirmation. Stop its producers and workers before: what they write meanwhile may stay. A space with jobs
    in flight is refused, unless --force.
    """
    store, output = space_admin(session), session.output
    bounds.check_name("space", name)
    if not yes and not output.confirm(f"remove the space {name} and everything in it?"):
        raise CommandFailed(ExitCode.FAILED, "not confirmed, nothing was changed (--yes skips the question)")
    rows = 0
    with output.progress_bar("remove", None) as update:
        while True:
            removal = store.do(RemoveSpace(name=name, force=force))
            rows += removal.rows
            update(rows)
            if not removal.more:
                break
            if not removal.rows:
                raise CommandFailed(ExitCode.FAILED, f"removed {rows} rows; others are locked: try again")
    if as_json:
        output.print_json({"rows": rows})
    else:
        output.print_line(f"removed {rows} rows of the space {name}")


def space_names(admin: Store) -> Iterator[str]:
    """Return the names of all spaces that have rows."""
    after: str | None = ""
    while after is not None:
        page = admin.do(Spaces(after=after))
        yield from page
        after = page.cursor


def space_admin(session: Session) -> Store:
    """Return the store of the session; a driver that does not list its spaces ends the command."""
    store = session.store()
    if not store.capabilities.has(Feature.SPACES):
        raise CommandFailed(ExitCode.FAILED, f"the {store.capabilities.driver} driver does not list its spaces")
    return store
