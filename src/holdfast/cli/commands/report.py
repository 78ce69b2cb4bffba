"""``holdfast report``: a page with the plots and the certificate of a history."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.command import Command
from holdfast.cli.parameters import FOLDER
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.cli.spark_access import master_option, open_history


@click.command("report", cls=Command)
@click.option("--history", "folder", required=True, metavar="DIR", type=FOLDER, help="A folder of `history sync`.")
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The HTML file to write.")
@click.option("--title", default="Holdfast report", show_default=True, help="The heading.")
@master_option
@click.option("--json", "as_json", is_flag=True, help="JSON: the file, and whether every law held.")
@pass_session
def report(session: Session, *, folder: str, out: Path, title: str, master: str | None, as_json: bool) -> None:
    """Write a page with the plots and the certificate of a history.

    The page needs no other file, no script and no network. A broken law is shown on the page; the exit code is 0 all
    the same.
    """
    history = open_history(folder, master)
    text, certificate = history.page(title)
    data = text.encode()
    try:
        out.write_bytes(data)
    except OSError as error:
        raise CommandFailed(
            ExitCode.FAILED, f"--out: wanted a file that can be written, got {out} ({error.strerror})"
        ) from error
    if as_json:
        session.output.print_json({"out": str(out), "bytes": len(data), "holds": certificate.holds})
    else:
        verdict = certificate.verdict
        session.output.print_line(f"{out}: {certificate.jobs:,} jobs, {verdict[0].lower()}{verdict[1:]}")
