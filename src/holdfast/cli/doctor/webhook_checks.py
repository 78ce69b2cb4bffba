"""Checks of webhooks: jobs that want to be told of, and nobody who tells."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.cli.doctor.check import Check, Health
from holdfast.cli.session import Session
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import LedgerTail, Read
from holdfast.drivers.store import Store
from holdfast.ledger_reader import find_webhooks
from holdfast.model.ledger_reader import KIND
from holdfast.webhooks.callbacks import NAME

LOOKED_AT_ROWS = 1000  # the last ones of the ledger


def check_webhooks(_session: Session, store: Store) -> Iterator[Check]:
    """Whether webhooks are called: a process with a secret registers a reader of the ledger."""
    if not store.capabilities.has(Feature.LEDGER) or not store.capabilities.has(Feature.REGISTRY):
        return
    [reader] = store.do(Read(kind=KIND, keys=[NAME]))
    if reader is not None:
        return  # if it has fallen behind, the check of readers says so
    ended = {row.job_id for row in store.do(LedgerTail(limit=LOOKED_AT_ROWS)) if row.state and row.state.has_ended}
    webhooks = find_webhooks(store, sorted(ended)) if ended else {}
    if webhooks:
        yield Check(
            name="webhooks",
            health=Health.NOTE,
            text=f"{len(webhooks)} of the last jobs that ended have a webhook, and none was ever called here",
            advice="set webhooks_secret where `holdfast serve` or `holdfast work` runs",
        )
