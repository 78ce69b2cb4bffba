"""``holdfast queue order``: what the domains of a queue do at a missing offset and at a dead job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from holdfast.cli.command import Command
from holdfast.cli.commands.queue import JSON, NEW, change_settings, describe_order
from holdfast.cli.output import Output
from holdfast.cli.parameters import POSITIVE_DURATION, ValueOrNone
from holdfast.cli.session import Session, pass_session
from holdfast.clock import from_timedelta
from holdfast.model.queue_settings import Gaps, OnExhausted, QueueSettings

DEFAULT_ORDER = "gaps are passed, and a domain goes on after a dead job"


@click.command(cls=Command)
@click.argument("name")
@click.option(
    "--on-exhausted",
    type=click.Choice([one.value for one in OnExhausted]),
    help="After a dead job: skip goes on with the next one, halt stops the domain.",
)
@click.option(
    "--gaps",
    type=click.Choice([one.value for one in Gaps]),
    help="At a missing offset: pass runs the next larger one, wait waits for it.",
)
@click.option(
    "--gap-report-after",
    type=ValueOrNone(POSITIVE_DURATION),
    metavar="DURATION|none",
    help="A domain that waits for longer is overdue.",
)
@click.option(
    "--gap-pass-after",
    type=ValueOrNone(POSITIVE_DURATION),
    metavar="DURATION|none",
    help="A domain that waits for longer passes the gap.",
)
@NEW
@JSON
@pass_session
def order(
    session: Session,
    name: str,
    *,
    on_exhausted: str | None,
    gaps: str | None,
    gap_report_after: timedelta | bool | None,
    gap_pass_after: timedelta | bool | None,
    new: bool,
    as_json: bool,
) -> None:
    """Set what domains do at gaps and dead jobs.

    Applies to each domain of the queue. Without options, shows the settings; what is not named does not change. A
    halted domain stays halted when the setting changes: see `domain skip`, `domain retry` and `domain resume`.
    """
    changes: dict[str, Any] = {}
    if on_exhausted is not None:
        changes["on_exhausted"] = OnExhausted(on_exhausted)
    if gaps is not None:
        changes["gaps"] = Gaps(gaps)
    for field, length in (("gap_report_after", gap_report_after), ("gap_pass_after", gap_pass_after)):
        if length is not None:
            changes[field] = from_timedelta(length) if isinstance(length, timedelta) else None
    change_settings(session, name, None, changes, new=new, as_json=as_json, describe=_describe)


def _describe(_: Output, settings: QueueSettings) -> str:
    return ", ".join(describe_order(settings)) or DEFAULT_ORDER
