"""Checks of the ledger: transactions that delay its readers, and readers that have fallen behind."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.cli.commands.ledger_readers import read_progress
from holdfast.cli.doctor.check import Check, Health
from holdfast.cli.session import Session
from holdfast.clock import HOUR, SECOND
from holdfast.drivers.answers import LedgerDelay
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Diagnose, Scan
from holdfast.drivers.store import Store
from holdfast.model import duration
from holdfast.model.ledger_reader import KIND, MAX_READERS

LONG_DELAY = 10 * SECOND  # microseconds: transactions of Holdfast take milliseconds
SLOW_READER = HOUR  # microseconds that the first unread row has waited


def check_ledger(session: Session, store: Store) -> Iterator[Check]:
    """What delays the readers of the ledger, such as callbacks, and what the readers keep from being removed."""
    yield from _check_delay(store.do(Diagnose()).ledger_delay)
    if store.capabilities.has(Feature.LEDGER) and store.capabilities.has(Feature.REGISTRY):
        yield from _check_readers(session, store)


def _check_delay(delay: LedgerDelay | None) -> Iterator[Check]:
    if delay is None or delay.age < LONG_DELAY:
        return
    if delay.pid is None:
        text, advice = f"the prepared transaction {delay.name}", "commit it, or roll it back: ROLLBACK PREPARED"
    else:
        program = f" of {delay.name}" if delay.name else ""
        text, advice = f"the transaction of process {delay.pid}{program}", f"SELECT pg_terminate_backend({delay.pid})"
        advice = f"end it: {advice}"
    yield Check(
        name="ledger",
        health=Health.NOTE,
        text=f"{text} is open for {duration.format_rounded(delay.age)} ({delay.state}); callbacks and other readers of "
        "the ledger wait for its end",
        advice=advice,
    )


def _check_readers(session: Session, store: Store) -> Iterator[Check]:
    for entry in store.do(Scan(kind=KIND, limit=MAX_READERS)):
        unread_since, problem = read_progress(store, entry)
        age = 0 if unread_since is None else session.output.now() - unread_since
        if not problem and age < SLOW_READER:
            continue
        text = problem or f"has rows to read since {duration.format_rounded(age)}, which trim and purge keep"
        advice = f"start it, or remove it with `holdfast ledger readers remove {entry.key}`"
        yield Check(name="readers", health=Health.NOTE, text=f"{entry.key}: {text}", advice=advice)
