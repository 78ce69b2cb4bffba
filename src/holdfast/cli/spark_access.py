"""Spark for the commands that need it, or one line that says how to install it."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import click

from holdfast.cli.session import CommandFailed, ExitCode

if TYPE_CHECKING:
    from holdfast.spark.history.reader import History

REQUIRED_PACKAGES = ("pandas", "pyarrow", "pyspark")

master_option = click.option(
    "--master", metavar="URL", help="The Spark cluster; by default local Spark, or the master of spark-submit."
)


def load_spark() -> ModuleType:
    """Return ``holdfast.spark``, or fail with the command that installs it."""
    try:
        from holdfast import spark  # noqa: PLC0415 - needs an extra that may not be installed
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in REQUIRED_PACKAGES:
            raise
        raise CommandFailed(ExitCode.USAGE, str(error)) from error
    return spark


def open_history(folder: str, master: str | None) -> History:
    """Return the history in a folder; a folder without a commit is reported as not found."""
    spark = load_spark()
    from holdfast.spark.history.reader import History  # noqa: PLC0415 - needs an extra that may not be installed

    history = History(spark.session(master), folder)
    if not history.commit.number:
        raise CommandFailed(
            ExitCode.NOT_FOUND, f"no history at {folder}: `holdfast history sync --to {folder}` creates one"
        )
    return history
