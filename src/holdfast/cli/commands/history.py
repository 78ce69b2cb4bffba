"""``holdfast history``: copy the ledger and the jobs to Parquet, and compact the copy."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Literal

import click

from holdfast.cli.command import Command, Group
from holdfast.cli.parameters import DURATION, FOLDER, ValueOrNone
from holdfast.cli.session import Session, pass_session
from holdfast.cli.spark_access import load_spark, master_option


@click.group(cls=Group)
def history() -> None:
    """Copy the ledger and the jobs to Parquet, and compact the copy."""


@history.command("sync", cls=Command)
@click.option(
    "--to", "folder", required=True, metavar="DIR", type=FOLDER, help="A folder on any filesystem that Spark can write."
)
@click.option(
    "--payloads/--no-payloads",
    default=True,
    show_default=True,
    help="Copy the payloads: jobs without cannot run again.",
)
@click.option(
    "--hold",
    type=ValueOrNone(DURATION),
    default="30d",
    show_default=True,
    help="How long `trim` keeps rows for the next sync.",
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
    """Add everything since the last sync, exactly once.

    An interrupted sync has added whole commits or nothing; the next sync continues from there.
    """
    spark = load_spark()
    from holdfast.spark.history import sync  # noqa: PLC0415 - needs an extra that may not be installed

    store = session.store()
    with session.output.progress_bar("ledger rows", None, shown=not as_json) as update:
        added = sync.sync(
            store,
            folder,
            spark=spark.session(master),
            space=session.space,
            payloads=payloads,
            hold=hold or None,
            on_progress=update,
        )
    if as_json:
        session.output.print_json(asdict(added))
    else:
        session.output.print_line(
            f"{added.rows:,} ledger rows and {added.jobs:,} jobs added, {added.waiting:,} jobs have not ended; "
            f"{added.position:,} rows in total"
        )


@history.command("compact", cls=Command)
@click.argument("folder", metavar="DIR")
@click.option("--keep", type=DURATION, metavar="DURATION", help="Remove days that are older; by default none.")
@master_option
@click.option("--json", "as_json", is_flag=True, help="JSON: what was done.")
@pass_session
def compact(session: Session, folder: str, *, keep: timedelta | None, master: str | None, as_json: bool) -> None:
    """Merge the small parts of each day into one.

    Replaced files, and files of a sync that died, are removed by the first compaction at least one day later.
    """
    spark = load_spark()
    from holdfast.spark.history import compaction  # noqa: PLC0415 - needs an extra that may not be installed

    done = compaction.compact(folder, spark=spark.session(master), keep=keep)
    if as_json:
        session.output.print_json(asdict(done))
    else:
        session.output.print_line(
            f"{done.before:,} parts merged into {done.after:,}; {done.forgotten:,} old rows and "
            f"{done.waste:,} unused parts removed"
        )
