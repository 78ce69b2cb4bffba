"""``holdfast schema``: the tables of a store."""

from __future__ import annotations

import click

from holdfast.cli import schema_access
from holdfast.cli.schema_access import Schema
from holdfast.cli.session import Code, Group, Session, Stop, pass_session
from holdfast.settings import mask_secrets


@click.group(cls=Group)
def schema() -> None:
    """Make, upgrade and check the tables of a store."""


def _found(session: Session) -> Schema:
    found = schema_access.look(session.url)
    if found is None:
        raise schema_access.none(session.url)
    return found


@schema.command()
@pass_session
def install(session: Session) -> None:
    """Make the tables.

    Changes nothing if they are there and up to date.
    """
    before = _found(session)
    session.store(create=True)
    _tell(session, before)


@schema.command()
@pass_session
def upgrade(session: Session) -> None:
    """Bring existing tables up to date."""
    before = _found(session)
    if not before.applied:
        raise Stop(
            Code.NOT_FOUND, f"no store at {mask_secrets(session.url)} to upgrade: `holdfast schema install` makes one"
        )
    session.store()
    _tell(session, before)


def _tell(session: Session, before: Schema) -> None:
    if before.applied == before.newest:
        session.screen.line(f"version {before.newest} already, nothing to do")
    else:
        session.screen.line(f"version {before.newest}" + (f", was {before.applied}" if before.applied else ", new"))


@schema.command()
@click.option("--json", "as_json", is_flag=True, help="JSON: applied, newest, current.")
@pass_session
def check(session: Session, *, as_json: bool) -> None:
    """Compare the tables with what this Holdfast needs.

    Changes nothing; exits 1 if they differ.
    """
    found = _found(session)
    current = found.applied == found.newest
    if as_json:
        session.screen.document({"applied": found.applied, "newest": found.newest, "current": current})
    elif current:
        session.screen.line(f"version {found.applied}, up to date")
    if not current:
        told = f"version {found.applied}, wanted {found.newest}" if found.applied else "no tables"
        command = "upgrade" if found.applied else "install"
        raise Stop(Code.WRONG, f"{told}: run `holdfast schema {command}`")


@schema.command()
@pass_session
def sql(session: Session) -> None:
    """Print the statements that make the tables."""
    session.screen.line(schema_access.script(session.url).rstrip())
