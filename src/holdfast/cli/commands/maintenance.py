"""``holdfast reap`` and ``holdfast trim``: what keeps a store in order, for a timer or by hand."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import timedelta

import click

from holdfast.cli.parameters import LENGTH
from holdfast.cli.session import Command, Session, pass_session
from holdfast.clock import from_timedelta
from holdfast.drivers.contract import REAP_LIMIT, Trimmed


@click.command(cls=Command)
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only in this queue; repeatable.")
@click.option("--worker", metavar="NAME", help="A worker known to be dead: end its leases, expired or not.")
@click.option("--json", "as_json", is_flag=True, help='JSON: {"ended": ...}.')
@pass_session
def reap(session: Session, queues: tuple[str, ...], worker: str | None, *, as_json: bool) -> None:
    """End expired leases, so that their jobs run again.

    Every reserve does so in the queues it asks; this is for queues that nobody asks.
    """
    store = session.store()
    ended = 0
    while True:
        reaped = store.reap(list(queues) or None, worker=worker)
        ended += reaped
        if reaped < REAP_LIMIT:
            break
    if as_json:
        session.screen.document({"ended": ended})
    else:
        session.screen.line(f"{ended} lease{'' if ended == 1 else 's'} ended")


@click.command(cls=Command)
@click.option("--keep-ended", type=LENGTH, metavar="LENGTH", help="Of done and cancelled jobs; a day at least.")
@click.option("--keep-ledger", type=LENGTH, metavar="LENGTH", help="Of ledger rows.")
@click.option("--json", "as_json", is_flag=True, help="JSON: what was removed of each.")
@pass_session
def trim(session: Session, keep_ended: timedelta | None, keep_ledger: timedelta | None, *, as_json: bool) -> None:
    """Forget what is old enough.

    Done and cancelled jobs, ledger rows, idempotency keys and expired registry rows; never dead letters. In this
    space alone.
    """
    store, settings = session.store(), session.settings
    total = Trimmed(more=True)
    with session.screen.bar("trim", None) as step:
        while total.more:
            removed = store.trim(
                ended_for=from_timedelta(settings.keep_ended if keep_ended is None else keep_ended),
                ledger_for=from_timedelta(settings.keep_ledger if keep_ledger is None else keep_ledger),
            )
            total = replace(
                removed,
                jobs=total.jobs + removed.jobs,
                ledger=total.ledger + removed.ledger,
                dedupe=total.dedupe + removed.dedupe,
                registry=total.registry + removed.registry,
            )
            step(total.jobs + total.ledger)
    counts = {name: value for name, value in asdict(total).items() if name != "more"}
    if as_json:
        session.screen.document(counts)
    else:
        words = {"jobs": "jobs", "ledger": "ledger rows", "dedupe": "keys", "registry": "registry rows"}
        session.screen.line("removed " + ", ".join(f"{counts[name]} {word}" for name, word in words.items()))
