"""``holdfast schema``: create, upgrade and check the tables of a store."""

from __future__ import annotations

import click

from holdfast.cli import schema_access
from holdfast.cli.command import Group
from holdfast.cli.schema_access import SchemaVersion
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.settings import mask_secrets


@click.group(cls=Group)
def schema() -> None:
    """Create, upgrade and check the tables of a store."""


def _read_version(session: Session) -> SchemaVersion:
    version = schema_access.read_version(session.url)
    if version is None:
        raise schema_access.no_schema(session.url)
    return version


@schema.command()
@pass_session
def install(session: Session) -> None:
    """Create the tables.

    Changes nothing if they exist and are up to date.
    """
    before = _read_version(session)
    session.store(create=True)
    _print_change(session, before)


@schema.command()
@pass_session
def upgrade(session: Session) -> None:
    """Bring existing tables up to date."""
    before = _read_version(session)
    if not before.applied:
        raise CommandFailed(
            ExitCode.NOT_FOUND,
            f"no store at {mask_secrets(session.url)} to upgrade: `holdfast schema install` creates one",
        )
    session.store()
    _print_change(session, before)


def _print_change(session: Session, before: SchemaVersion) -> None:
    if before.current:
        change = f"version {before.applied} already, nothing to do"
    elif before.applied >= before.newest:
        change = f"version {before.applied}, brought up to date"
    else:
        change = f"version {before.newest}" + (f", was {before.applied}" if before.applied else ", new")
    session.output.print_line(change)


@schema.command()
@click.option("--json", "as_json", is_flag=True, help="JSON: applied, newest, current.")
@pass_session
def check(session: Session, *, as_json: bool) -> None:
    """Compare the tables and functions with this version.

    Changes nothing; exits 1 if they are missing or out of date. Newer tables that this version can use are up to date.
    """
    version = _read_version(session)
    if as_json:
        session.output.print_json(version._asdict())
    elif version.current:
        session.output.print_line(f"version {version.applied}, up to date")
    if not version.current:
        command = "upgrade" if version.applied else "install"
        if not version.applied:
            problem = "no tables"
        elif version.applied < version.newest:
            problem = f"version {version.applied}, wanted {version.newest}"
        else:
            problem = f"version {version.applied}, with other functions, or restored from a backup"
        raise CommandFailed(ExitCode.FAILED, f"{problem}: run `holdfast schema {command}`")


@schema.command()
@pass_session
def sql(session: Session) -> None:
    """Print the SQL statements that create the tables."""
    session.output.print_line(schema_access.schema_sql(session.url).rstrip())


@schema.command()
@click.option("--role", required=True, metavar="NAME", help="The role of the database that gets the rights.")
@pass_session
def grants(session: Session, *, role: str) -> None:
    """Print the SQL statements that give a role its rights.

    The rights of clients and workers. The role that owns the tables runs the statements after every install and
    upgrade.
    """
    session.output.print_line(schema_access.grants_sql(session.url, role).rstrip())
