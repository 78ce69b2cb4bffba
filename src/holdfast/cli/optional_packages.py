"""What a command needs that may not be installed."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import click

from holdfast.cli.session import Code, Stop

if TYPE_CHECKING:
    from holdfast.spark.history.reader import History

NEEDED = ("pyarrow", "pyspark")

master_option = click.option(
    "--master", metavar="URL", help="Of the cluster; by default local Spark, or what spark-submit says."
)


def spark_engine() -> ModuleType:
    """``holdfast.spark``, or one line that says how to get it."""
    try:
        from holdfast import spark  # noqa: PLC0415 - an extra that may not be there
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        raise Stop(
            Code.USAGE, f"there is no {error.name} here: pip install 'holdfast[spark-local]', or use a Spark that is"
        ) from error
    return spark


def history_at(folder: str, master: str | None) -> History:
    """The history in a folder; one that nothing was ever committed to is not found."""
    engine = spark_engine()
    from holdfast.spark.history.reader import History  # noqa: PLC0415 - the same

    found = History(engine.session(master), folder)
    if not found.commit.number:
        raise Stop(Code.NOT_FOUND, f"no history at {folder}: `holdfast history sync --to {folder}` makes one")
    return found
