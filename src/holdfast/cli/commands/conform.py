"""``holdfast conform``: run the conformance suite against a store."""

from __future__ import annotations

import click

from holdfast.cli.command import Command
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.connect import connect


@click.command(cls=Command)
@click.argument("store_url", metavar="URL")
@click.option("--law", "laws", multiple=True, metavar="LAW", help="Only cases of this law, e.g. L5; repeatable.")
@click.option("-k", "text", default="", metavar="TEXT", help="Only cases whose file or sentence contains this text.")
@click.option("--json", "as_json", is_flag=True, help="JSON: a list of verdicts.")
@pass_session
def conform(session: Session, store_url: str, laws: tuple[str, ...], text: str, *, as_json: bool) -> None:
    """Run the conformance suite against a store.

    Exits 1 if a case fails.
    The suite writes to spaces named conform-... and does not remove them: use a store made for it.
    """
    # Imported here because the suite is large and no other command needs it.
    from holdfast.testing.drivers.conformance.__main__ import main  # noqa: PLC0415
    from holdfast.testing.drivers.conformance.case import LAWS  # noqa: PLC0415

    session.use_url(store_url)
    for law in laws:
        if law not in LAWS:
            raise click.UsageError(f"--law: wanted one of {', '.join(LAWS)}, got {law}")
    connect(session.url).close()  # report a store that cannot be opened as an error, not as failed cases
    options = [option for law in laws for option in ("--law", law)]
    code = main([session.url, *options, "-k", text, *(["--json"] if as_json else [])])
    if code:
        raise CommandFailed(ExitCode(code))
