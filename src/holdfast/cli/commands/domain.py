"""``holdfast domain``: the domains of queues, and what to do with one that is halted or waits for an offset."""

from __future__ import annotations

import shlex

import click

from holdfast.cli import json_values
from holdfast.cli.command import Group
from holdfast.cli.filters import page_options
from holdfast.cli.output import Column, Output
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.client import Client
from holdfast.drivers.answers import Page
from holdfast.drivers.requests import Domains
from holdfast.drivers.store import Store
from holdfast.model import bounds
from holdfast.model.domain import DomainInfo, DomainStatus, ResumeAction

_QUEUE = click.argument("queue")
_DOMAIN = click.argument("name", metavar="DOMAIN")
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object: the domain.")
_JSON_CHANGE = click.option("--json", "as_json", is_flag=True, help="JSON: changed, and the domain after the change.")


@click.group(cls=Group)
def domain() -> None:
    """List domains, and let halted or waiting ones go on.

    The jobs of a domain run one at a time, in order. A domain is halted by a dead job if its queue says so, and waits
    for a missing offset if its queue says so: see `queue order`.
    """


@domain.command("list")
@click.option("--queue", metavar="NAME", help="Only this queue.")
@click.option("--halted", is_flag=True, help="Only those that a dead job halted.")
@click.option("--waiting", is_flag=True, help="Only those that wait for an offset.")
@page_options
@pass_session
def list_(
    session: Session, *, queue: str | None, halted: bool, waiting: bool, limit: int, after: str | None, as_json: bool
) -> None:
    """List domains that have open jobs or are halted."""
    if halted and waiting:
        raise click.UsageError("wanted one of --halted and --waiting, got both")
    status = DomainStatus.HALTED if halted else DomainStatus.WAITING if waiting else None
    page = _find_page(session.store(), queue, status, limit=limit, after=after)
    if as_json:
        session.output.print_json({"items": [json_values.domain(one) for one in page], "cursor": page.cursor})
        return
    if not page.items:
        session.output.print_note("no domain matches")
        return
    session.output.print_table(
        [
            Column(title="QUEUE", truncate=True),
            Column(title="DOMAIN", truncate=True),
            Column(title="STATUS"),
            Column(title="POSITION", align_right=True),
            Column(title="OPEN", align_right=True),
            Column(title="SINCE", align_right=True),
            Column(title="REASON", truncate=True),
        ],
        [_cells(session.output, one) for one in page],
    )
    if page.cursor is not None:
        session.output.print_note(f"more: --after {shlex.quote(page.cursor)}")


def _find_page(
    store: Store, queue: str | None, status: DomainStatus | None, *, limit: int, after: str | None
) -> Page[DomainInfo]:
    """``limit`` matching domains, if there are so many. One call of a store reads a bounded number of rows only."""
    found: list[DomainInfo] = []
    while True:
        page = store.do(Domains(queue=queue, status=status, limit=limit - len(found), after=after))
        found += page.items
        after = page.cursor
        if after is None or len(found) == limit:
            return Page(found, after)


def _cells(output: Output, one: DomainInfo) -> tuple[object, ...]:
    since = output.age(one.halted_at or one.waiting_since)
    return one.queue, one.domain, one.status, one.position, one.open, since, describe_stop(one)


def describe_stop(one: DomainInfo) -> str:
    """Return why a domain has stopped, in a few words; empty if it has not."""
    if one.status is DomainStatus.HALTED:
        return f"dead job {one.halted_by}"
    if one.status is DomainStatus.WAITING:
        return f"waits for offset {one.waits_for}" + (", overdue" if one.is_overdue else "")
    return ""


@domain.command()
@_QUEUE
@_DOMAIN
@_JSON
@pass_session
def show(session: Session, queue: str, name: str, *, as_json: bool) -> None:
    """Show one domain."""
    one = _find(session.store(), queue, name)
    if one is None:
        raise _unknown(queue, name)
    if as_json:
        session.output.print_json(json_values.domain(one))
        return
    _print(session.output, one)


def _find(store: Store, queue: str, name: str) -> DomainInfo | None:
    return next(iter(store.do(Domains(queue=queue, name=name))), None)


def _unknown(queue: str, name: str) -> CommandFailed:
    return CommandFailed(ExitCode.NOT_FOUND, f"no domain {name} in queue {queue}: it has no jobs and no ended offsets")


def _print(output: Output, one: DomainInfo) -> None:
    output.print_fields(
        [
            ("queue", one.queue),
            ("domain", one.domain),
            ("status", one.status),
            ("position", one.position),
            ("open jobs", one.open),
            ("first job", one.head_id),
            ("its offset", one.head_offset),
            ("waits for", one.waits_for),
            ("waiting since", output.instant(one.waiting_since)),
            ("overdue", "yes" if one.is_overdue else None),
            ("halted by", one.halted_by),
            ("halted at", output.instant(one.halted_at)),
        ]
    )


# Actions ----------------------------------------------------------------------------------------------------


@domain.command()
@_QUEUE
@_DOMAIN
@_JSON_CHANGE
@pass_session
def skip(session: Session, queue: str, name: str, *, as_json: bool) -> None:
    """Go on without the dead job that halted a domain."""
    _resume(session, queue, name, ResumeAction.SKIP, as_json=as_json)


@domain.command()
@_QUEUE
@_DOMAIN
@_JSON_CHANGE
@pass_session
def retry(session: Session, queue: str, name: str, *, as_json: bool) -> None:
    """Run the job that halted a domain again.

    It runs next, with all its attempts.
    """
    _resume(session, queue, name, ResumeAction.RETRY, as_json=as_json)


@domain.command()
@_QUEUE
@_DOMAIN
@click.option(
    "--position",
    type=click.IntRange(0, bounds.MAX_OFFSET),
    metavar="N",
    help="Wait for no offset below this one; a smaller one that arrives later runs next.",
)
@_JSON_CHANGE
@pass_session
def resume(session: Session, queue: str, name: str, position: int | None, *, as_json: bool) -> None:
    """Let a halted or waiting domain go on.

    A domain that waits for an offset goes on with --position, which is also the first offset of a domain that does not
    begin at 0. Without it, this only ends the halt, for a dead job that was repaired, requeued or cancelled by hand.
    """
    _resume(session, queue, name, ResumeAction.RESUME, position=position, as_json=as_json)


def _resume(
    session: Session, queue: str, name: str, action: ResumeAction, *, position: int | None = None, as_json: bool
) -> None:
    """Resume a domain and print it. A domain that is not halted is a failure, unless its position is moved."""
    store = session.store()
    changed = Client(store).resume_domain(queue, name, action, position=position)
    one = _find(store, queue, name)
    if as_json:
        session.output.print_json({"changed": changed, "domain": None if one is None else json_values.domain(one)})
    elif changed and one is not None:
        _print(session.output, one)
    elif changed:
        session.output.print_line(f"{name}: goes on, without open jobs")
    if changed:
        return
    if one is None:
        raise _unknown(queue, name)
    wanted = "halted" if position is None else f"halted or below position {position}"
    raise CommandFailed(ExitCode.FAILED, f"domain {name} is not {wanted}; nothing was changed")


@domain.command()
@_QUEUE
@_DOMAIN
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="JSON: forgotten.")
@pass_session
def forget(session: Session, queue: str, name: str, *, yes: bool, as_json: bool) -> None:
    """Forget the ended offsets of a domain.

    The domain must have no open jobs; its offsets are new again. For queues with ever new domains. A duplicate of an
    ended offset that arrives later is a new job.
    """
    store, output = session.store(), session.output
    one = _find(store, queue, name)
    if one is None:
        raise _unknown(queue, name)
    if not yes and not output.confirm(f"forget the ended offsets of {name} in {queue}, up to {one.position}?"):
        raise CommandFailed(ExitCode.FAILED, "not confirmed, nothing was changed (--yes skips the question)")
    forgotten = Client(store).forget_domain(queue, name)
    if as_json:
        output.print_json({"forgotten": forgotten})
    elif forgotten:
        output.print_line(f"forgot {name}")
    if not forgotten:
        has_jobs = f"domain {name} has {one.open} open jobs" if one.open else f"domain {name} has nothing to forget"
        raise CommandFailed(ExitCode.FAILED, f"{has_jobs}; nothing was changed")
