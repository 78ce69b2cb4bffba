"""``holdfast history``: the ledger and the jobs as Parquet, kept up to date and small."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Literal

import click

from holdfast.cli.optional_packages import master_option, spark_engine
from holdfast.cli.parameters import LENGTH, OrNone
from holdfast.cli.session import Command, Group, Session, pass_session


@click.group(cls=Group)
def history() -> None:
    """Keep what happened as Parquet, for Spark and others."""


@history.command("sync", cls=Command)
@click.option("--to", "folder", required=True, metavar="DIR", help="A folder on any filesystem that Spark reaches.")
@click.option("--payloads/--no-payloads", default=True, show_default=True, help="What `replay` needs.")
@click.option(
    "--hold", type=OrNone(LENGTH), default="30d", show_default=True, help="How long `trim` waits for the next sync."
)
@master_option
@click.option("--json", "as_json", is_flag=True, help="JSON: what was added.")
@pass_session
def sync(
    session: Session,
    *,
    folder: str,
    payloads: bool,
    hold: timedelta | Literal[False],
    master: str | None,
    as_json: bool,
) -> None:
    """Add what has happened since the last sync, exactly once.

    A sync that is interrupted has added nothing or whole pieces, and the next one goes on from there.
    """
    engine = spark_engine()
    from holdfast.spark.history import sync  # noqa: PLC0415 - an extra that may not be there

    store = session.store()
    with session.screen.bar("ledger rows", None, shown=not as_json) as step:
        added = sync.sync(
            store,
            folder,
            spark=engine.session(master),
            space=session.settings.space,
            payloads=payloads,
            hold=hold or None,
            on_progress=step,
        )
    if as_json:
        session.screen.document(asdict(added))
    else:
        session.screen.line(
            f"{added.rows:,} ledger rows and {added.jobs:,} jobs added, {added.waiting:,} jobs wait; "
            f"{added.position:,} rows in all"
        )


@history.command("compact", cls=Command)
@click.argument("folder", metavar="DIR")
@click.option("--keep", type=LENGTH, metavar="LENGTH", help="Forget days that are older; by default none.")
@master_option
@click.option("--json", "as_json", is_flag=True, help="JSON: what was done.")
@pass_session
def compact(session: Session, folder: str, *, keep: timedelta | None, master: str | None, as_json: bool) -> None:
    """Make one part of the many small ones of each day.

    Files that were replaced, or left behind by a sync that died, are removed by the first compaction a day later.
    """
    engine = spark_engine()
    from holdfast.spark.history import compaction  # noqa: PLC0415 - an extra that may not be there

    done = compaction.compact(folder, spark=engine.session(master), keep=keep)
    if as_json:
        session.screen.document(asdict(done))
    else:
        session.screen.line(
            f"{done.before:,} parts are now {done.after:,}; {done.forgotten:,} rows forgotten, "
            f"{done.waste:,} unused parts removed"
        )
