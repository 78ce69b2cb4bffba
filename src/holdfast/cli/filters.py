"""Choosing jobs by filter: the options that several commands share, and the pages behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from holdfast.cli.parameters import PAST
from holdfast.drivers.contract import JobFilter, Store
from holdfast.model.job import JobRecord, State

PAGE = 500

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = [
    click.option("--queue", metavar="NAME", help="Of this queue."),
    click.option("--type", "type_", metavar="TYPE", help="Of this type."),
    click.option("--domain", metavar="TEXT", help="Of this domain."),
    click.option("--name", metavar="TEXT", help="With this name."),
    click.option("--key", metavar="TEXT", help="With this idempotency key."),
    click.option(
        "--since", type=PAST, metavar="WHEN", help="Created then or later: an instant, or 2h for two hours ago."
    ),
    click.option("--until", type=PAST, metavar="WHEN", help="Created before then."),
]
_STATES = click.option(
    "--state",
    "states",
    type=click.Choice([state.value for state in State]),
    multiple=True,
    help="In this state; repeatable.",
)
_REASON = click.option("--reason", metavar="TEXT", help="Dead for exactly this reason.")


def any_job(command: F) -> F:
    """Options for jobs in any state."""
    return _taking([_STATES, *_OPTIONS], command)


def dead_letters(command: F) -> F:
    """Options for dead letters alone."""
    return _taking([*_OPTIONS, _REASON], command)


def _taking(options: list[Callable[[F], F]], command: F) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def made(*, states: tuple[State, ...] | None, options: dict[str, Any]) -> JobFilter:
    """The filter that these options ask for."""
    return JobFilter(
        states=states or None,
        queue=options["queue"],
        type=options["type_"],
        domain=options["domain"],
        name=options["name"],
        idempotency_key=options["key"],
        reason=options.get("reason"),
        created_from=options["since"],
        created_before=options["until"],
    )


def every(store: Store, where: JobFilter) -> Iterator[JobRecord]:
    """All jobs that fit, page by page; a job that changes meanwhile may be seen as it was."""
    after: str | None = None
    while True:
        page = store.find(where, limit=PAGE, after=after)
        yield from page
        after = page.cursor
        if after is None:
            return
