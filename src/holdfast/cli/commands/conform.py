"""``holdfast conform``: a store sits the exam of the contract."""

from __future__ import annotations

import click

from holdfast.cli.session import Code, Command, Session, Stop, pass_session
from holdfast.connect import connect


@click.command(cls=Command)
@click.argument("store_url", metavar="URL")
@click.option("--law", "laws", multiple=True, metavar="LAW", help="Only cases of this law, e.g. L5; repeatable.")
@click.option("-k", "text", default="", metavar="TEXT", help="Only cases whose file or sentence has this text.")
@click.option("--json", "as_json", is_flag=True, help="JSON: a list of verdicts.")
@pass_session
def conform(session: Session, store_url: str, laws: tuple[str, ...], text: str, *, as_json: bool) -> None:
    """Examine a store by the laws of the contract.

    Exits 1 if a case fails.
    It writes to spaces of its own, named conform-..., and leaves them there: use a store made for it.
    """
    # The suite is large, and no other command needs it.
    from holdfast.testing.drivers.conformance.__main__ import main  # noqa: PLC0415
    from holdfast.testing.drivers.conformance.case import LAWS  # noqa: PLC0415

    session.given["url"] = store_url
    for law in laws:
        if law not in LAWS:
            raise click.UsageError(f"--law: wanted one of {', '.join(LAWS)}, got {law}")
    connect(store_url).close()  # a store that cannot be opened is no verdict
    options = [option for law in laws for option in ("--law", law)]
    code = main([store_url, *options, "-k", text, *(["--json"] if as_json else [])])
    if code:
        raise Stop(Code(code))
