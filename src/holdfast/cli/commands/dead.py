"""``holdfast dead``: list, group and show dead letters."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli import dead_letters, filters, json_values
from holdfast.cli.command import Group
from holdfast.cli.commands.dead_actions import purge, requeue
from holdfast.cli.commands.job import inspect_job, print_inspection
from holdfast.cli.dead_letters import NO_MATCH, fingerprint_option
from holdfast.cli.output import Column
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.client import Client
from holdfast.model.job import State


@click.group(cls=Group)
def dead() -> None:
    """Inspect dead letters, requeue or purge them."""


@dead.command("list")
@filters.dead_letter_options
@fingerprint_option
@filters.page_options
@pass_session
def list_(
    session: Session, /, fingerprint: str | None, limit: int, after: str | None, *, as_json: bool, **options: Any
) -> None:
    """List dead letters that match every filter, in order of their ids."""
    store, output = session.store(), session.output
    where = dead_letters.filter_from(options)
    letters, cursor = dead_letters.find_page(store, where, fingerprint, limit=limit, after=after)
    if as_json:
        output.print_json({"items": [json_values.job(letter) for letter in letters], "cursor": cursor})
        return
    if not letters:
        output.print_note(NO_MATCH)
        return
    output.print_table(
        [
            Column(title="ID"),
            Column(title="DEAD FOR", align_right=True),
            Column(title="TYPE", truncate=True),
            Column(title="WHY", truncate=True),
        ],
        [
            (
                letter.id,
                output.age(letter.dead_at),
                letter.type,
                dead_letters.describe(letter.dead_reason, letter.last_error),
            )
            for letter in letters
        ],
    )
    if cursor is not None:
        output.print_note(f"more: --after {cursor}")


@dead.command()
@filters.dead_letter_options
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="The most groups to show.")
@click.option("--most", type=click.IntRange(min=1), default=20_000, show_default=True, help="The most letters to read.")
@click.option("--after", metavar="CURSOR", help="Only letters after the cursor that the last call printed.")
@click.option("--json", "as_json", is_flag=True, help="JSON: a list of groups, the largest first.")
@pass_session
def groups(session: Session, /, limit: int, most: int, after: str | None, *, as_json: bool, **options: Any) -> None:
    """Group dead letters by what went wrong.

    Two letters are in one group if they have the same type, and the same reason and error apart from numbers, ids,
    addresses and quoted text. Letters are read in order of their ids, --most of them.
    """
    output = session.output
    found, cursor = dead_letters.read_groups(session.store(), dead_letters.filter_from(options), most=most, after=after)
    if cursor is not None:
        output.print_note(f"only the first {most} letters were read; the rest: --after {cursor}, or a larger --most")
    if as_json:
        output.print_json([group.to_json() for group in found[:limit]])
        return
    if not found:
        output.print_note(NO_MATCH)
        return
    dead_letters.print_groups(output, found[:limit])
    if len(found) > limit:
        output.print_note(f"and {len(found) - limit} smaller groups: --limit shows more")


@dead.command()
@click.argument("job_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_session
def show(session: Session, job_id: str, *, as_json: bool) -> None:
    """Show everything about one dead letter."""
    store = session.store()
    inspection = inspect_job(store, job_id)
    state = inspection.job.state
    if state is not State.DEAD:
        raise CommandFailed(
            ExitCode.NOT_FOUND, f"job {job_id} is not a dead letter, it is {state}: see `holdfast job show`"
        )
    print_inspection(session, inspection, as_json=as_json, execution=Client(store).execution(job_id))


dead.add_command(requeue)
dead.add_command(purge)
