"""``holdfast report``: a history on one page that can be sent to anybody."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.optional_packages import history_at, master_option
from holdfast.cli.session import Code, Command, Session, Stop, pass_session


@click.command("report", cls=Command)
@click.option("--history", "folder", required=True, metavar="DIR", help="Of `history sync`.")
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The file.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "png"]),
    default="html",
    show_default=True,
    help="A page with everything, or its plots as one picture.",
)
@click.option("--title", default="Holdfast report", show_default=True, help="At its top.")
@master_option
@click.option("--json", "as_json", is_flag=True, help="JSON: the file, and whether every law held.")
@pass_session
def report(
    session: Session, *, folder: str, out: Path, form: str, title: str, master: str | None, as_json: bool
) -> None:
    """Write plots and the certificate of a history to one file.

    The page needs no other file, no script and no network. A law that was broken is on the page, and is no failure of
    the report.
    """
    history = history_at(folder, master)
    if form == "png":
        data, certificate = history.figure(title)
    else:
        text, certificate = history.page(title)
        data = text.encode()
    try:
        out.write_bytes(data)
    except OSError as error:
        raise Stop(Code.WRONG, f"--out: wanted a file that can be written, got {out} ({error.strerror})") from error
    if as_json:
        session.screen.document({"out": str(out), "bytes": len(data), "holds": certificate.holds})
    else:
        verdict = "every law held" if certificate.holds else f"{sum(certificate.violation_counts.values())} violations"
        session.screen.line(f"{out}: {certificate.jobs:,} jobs, {verdict}")
