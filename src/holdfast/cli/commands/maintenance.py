"""``holdfast reap`` and ``holdfast trim``: maintenance of a store, from a timer or by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace

import click

from holdfast.cli.command import Command
from holdfast.cli.commands.retention import settings_retention, stored_retention
from holdfast.cli.commands.space import space_admin, space_names
from holdfast.cli.session import Session, pass_session
from holdfast.drivers.answers import Trimmed
from holdfast.drivers.requests import REAP_LIMIT, Reap, Trim
from holdfast.drivers.store import Store
from holdfast.model.retention import Retention
from holdfast.worker.dead_retention import DeadLetterRetention

PAGE_JOBS = 1000

_ALL_SPACES = click.option("--all-spaces", is_flag=True, help="In all spaces of the store.")


def _chosen_spaces(session: Session, *, all_spaces: bool) -> Iterator[Store]:
    """Return the space of the session, or all spaces of its store."""
    store = session.store()
    if not all_spaces:
        yield store
        return
    for name in space_names(space_admin(session)):
        yield store.space(name)


@click.command(cls=Command)
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only in this queue; repeatable.")
@click.option("--worker", metavar="NAME", help="A worker that is known to be dead: end all its leases, expired or not.")
@_ALL_SPACES
@click.option("--json", "as_json", is_flag=True, help='JSON: {"ended": ...}.')
@pass_session
def reap(session: Session, queues: tuple[str, ...], worker: str | None, *, all_spaces: bool, as_json: bool) -> None:
    """End expired leases, so that their jobs run again.

    Every reserve does this in its queues; this command is for queues without a worker.
    """
    ended = 0
    for store in _chosen_spaces(session, all_spaces=all_spaces):
        while True:
            reaped = store.do(Reap(queues=list(queues) or None, worker=worker)).count
            ended += reaped
            if reaped < REAP_LIMIT:
                break
    if as_json:
        session.output.print_json({"ended": ended})
    else:
        session.output.print_line(f"{ended} lease{'' if ended == 1 else 's'} ended")


@click.command(cls=Command)
@_ALL_SPACES
@click.option("--json", "as_json", is_flag=True, help="JSON: how many rows of each kind were removed.")
@pass_session
def trim(session: Session, *, all_spaces: bool, as_json: bool) -> None:
    """Remove old rows from one space, or from all.

    The retention of a space says how old: see `retention`. Removes done and cancelled jobs, ledger
    rows, idempotency keys and expired registry rows, and dead letters only if the retention has a length for them.
    """
    total = Trimmed()
    with session.output.progress_bar("trim", None) as update:
        for store in _chosen_spaces(session, all_spaces=all_spaces):
            kept = stored_retention(store) or settings_retention(session.settings) or Retention()
            has_more = True
            while has_more:
                removed = store.do(Trim(ended_for=kept.ended_for, ledger_for=kept.ledger_for))
                has_more = removed.more
                total = replace(
                    removed,
                    jobs=total.jobs + removed.jobs,
                    ledger=total.ledger + removed.ledger,
                    dedupe=total.dedupe + removed.dedupe,
                    registry=total.registry + removed.registry,
                )
                update(total.jobs + total.ledger)
            if kept.dead_for is not None:
                total = replace(total, jobs=total.jobs + _purge_dead_letters(store, kept.dead_for))
    counts = {name: value for name, value in asdict(total).items() if name != "more"}
    if as_json:
        session.output.print_json(counts)
    else:
        nouns = {"jobs": "jobs", "ledger": "ledger rows", "dedupe": "keys", "registry": "registry rows"}
        session.output.print_line("removed " + ", ".join(f"{counts[name]} {noun}" for name, noun in nouns.items()))


def _purge_dead_letters(store: Store, dead_for: int) -> int:
    """Remove the dead letters that are old enough; return how many."""
    letters, total, more = DeadLetterRetention(store), 0, True
    while more:
        removed, more = letters.step(dead_for, limit=PAGE_JOBS)
        total += removed
    return total
