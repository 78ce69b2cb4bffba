"""``holdfast retention``: show or set how long the store keeps rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Literal

import click

from holdfast.cli import json_values
from holdfast.cli.command import Command
from holdfast.cli.parameters import KEEP_DEAD, KEEP_ENDED, POSITIVE_DURATION
from holdfast.cli.session import Session, pass_session
from holdfast.clock import from_timedelta, to_timedelta
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Read, Write
from holdfast.drivers.store import Store
from holdfast.model import duration
from holdfast.model.retention import KEY, KIND, Retention, choose_retention, read_retention, store_retention
from holdfast.settings import Settings


@click.command(cls=Command)
@click.option(
    "--keep-ended", type=KEEP_ENDED, metavar="DURATION", help="Keep done and cancelled jobs this long; at least a day."
)
@click.option("--keep-ledger", type=POSITIVE_DURATION, metavar="DURATION", help="Keep ledger rows this long.")
@click.option(
    "--keep-dead", type=KEEP_DEAD, metavar="DURATION", help="Keep dead letters this long; none: until they are purged."
)
@click.option("--json", "as_json", is_flag=True, help="JSON: the lengths in seconds, and whether they are stored.")
@pass_session
def retention(
    session: Session,
    keep_ended: timedelta | None,
    keep_ledger: timedelta | None,
    keep_dead: timedelta | Literal[False] | None,
    *,
    as_json: bool,
) -> None:
    """Show or set how long one space keeps rows.

    Every worker follows it, whatever its settings say. Without options, shows it.
    """
    store, output = session.store(), session.output
    stored = stored_retention(store)
    kept = stored or settings_retention(session.settings) or Retention()
    if keep_ended is not None:
        kept = replace(kept, ended_for=from_timedelta(keep_ended))
    if keep_ledger is not None:
        kept = replace(kept, ledger_for=from_timedelta(keep_ledger))
    if keep_dead is not None:
        kept = replace(kept, dead_for=None if keep_dead is False else from_timedelta(keep_dead))
    if keep_ended is not None or keep_ledger is not None or keep_dead is not None:
        store.do(Write(changes=[store_retention(kept)]))
        stored = kept
    if as_json:
        output.print_json(
            {
                "keep_ended": json_values.seconds(kept.ended_for),
                "keep_ledger": json_values.seconds(kept.ledger_for),
                "keep_dead": None if kept.dead_for is None else json_values.seconds(kept.dead_for),
                "stored": stored is not None,
            }
        )
    else:
        output.print_line(describe(kept) + ("" if stored else "; not stored: from the settings"))


def stored_retention(store: Store) -> Retention | None:
    """The retention that the space stores; None if it stores none."""
    if not store.capabilities.has(Feature.REGISTRY):
        return None
    [entry] = store.do(Read(kind=KIND, keys=[KEY]))
    return read_retention(entry)


def settings_retention(settings: Settings) -> Retention | None:
    """The retention that the settings want; None if nobody chose one."""
    return choose_retention(settings.chosen_keep_ended, settings.chosen_keep_ledger, settings.keep_dead)


def describe(kept: Retention) -> str:
    """A retention in words."""
    ended, ledger = (duration.format_exact(to_timedelta(length)) for length in (kept.ended_for, kept.ledger_for))
    dead = "" if kept.dead_for is None else f", dead letters {duration.format_exact(to_timedelta(kept.dead_for))}"
    return f"done and cancelled jobs {ended}, ledger rows {ledger}{dead}"
