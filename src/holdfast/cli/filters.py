"""Job filters: the options that several commands share, and the pages of jobs that match."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from uuid import UUID

import click

from holdfast.cli.parameters import PAST_INSTANT, add_options
from holdfast.clock import DAY, MILLISECOND
from holdfast.drivers.answers import Page
from holdfast.drivers.requests import Find
from holdfast.drivers.store import Store
from holdfast.model import bounds
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord, State

PAGE_SIZE = 500

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = [
    click.option("--queue", metavar="NAME", help="In this queue."),
    click.option("--type", "type_", metavar="TYPE", help="Of this type."),
    click.option("--domain", metavar="TEXT", help="Of this domain."),
    click.option("--name", metavar="TEXT", help="With this name."),
    click.option("--key", metavar="TEXT", help="With this idempotency key."),
    click.option(
        "--since",
        type=PAST_INSTANT,
        metavar="WHEN",
        help="Created at or after this instant; 2h means two hours ago.",
    ),
    click.option("--until", type=PAST_INSTANT, metavar="WHEN", help="Created before this instant."),
]
_STATES = click.option(
    "--state",
    "states",
    type=click.Choice([state.value for state in State]),
    multiple=True,
    help="In this state; repeatable.",
)
_PAGE_OPTIONS = [
    click.option(
        "--limit",
        type=click.IntRange(1, bounds.MAX_BATCH_ITEMS),
        default=50,
        show_default=True,
        help="The most to show.",
    ),
    click.option("--after", metavar="CURSOR", help="Continue after the cursor of the last list."),
    click.option("--json", "as_json", is_flag=True, help='JSON: {"items": [...], "cursor": ...}.'),
]
_REASON = click.option("--reason", metavar="TEXT", help="Dead for exactly this reason.")


def job_options(command: F) -> F:
    """Add the filter options for jobs in any state."""
    return add_options([_STATES, *_OPTIONS], command)


def dead_letter_options(command: F) -> F:
    """Add the filter options for dead letters."""
    return add_options([*_OPTIONS, _REASON], command)


def page_options(command: F) -> F:
    """Add the options of a command that prints one page of a list."""
    return add_options(_PAGE_OPTIONS, command)


def from_options(*, states: tuple[State, ...] | None, options: dict[str, Any]) -> JobFilter:
    """The filter for the option values of a command."""
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


def find_page(
    store: Store, where: JobFilter, *, limit: int, after: str | None, newest: bool = False
) -> Page[JobRecord]:
    """``limit`` matching jobs, if there are so many. One call of a store reads a bounded number of rows only.

    With ``newest`` and ``created_from``, the search ends at ids that are too old: not all older jobs are read. A job
    with an id of its own may be behind them; the cursor leads there.
    """
    jobs: list[JobRecord] = []
    while True:
        page = store.do(Find(where=where, limit=limit - len(jobs), after=after, newest=newest))
        jobs += page.items
        after = page.cursor
        if after is None or len(jobs) == limit or (newest and _is_id_from_before(after, where.created_from)):
            return Page(jobs, after)


def _is_id_from_before(job_id: str, instant: int | None) -> bool:
    """Whether the client that made this id did so clearly before the instant. The first 48 bits of an id are its time.

    The clocks of producers differ, so a day is allowed for.
    """
    if instant is None:
        return False
    try:
        made = UUID(job_id)
    except ValueError:
        return False
    return made.version == 7 and (made.int >> 80) * MILLISECOND < instant - DAY


def find_all(store: Store, where: JobFilter) -> Iterator[JobRecord]:
    """Every matching job, page by page. A job that changes meanwhile may be returned in its old state."""
    after: str | None = None
    while True:
        page = store.find(where, limit=PAGE_SIZE, after=after)
        yield from page
        after = page.cursor
        if after is None:
            return
