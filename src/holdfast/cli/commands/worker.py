"""``holdfast worker``: which workers run, where, and what they do."""

from __future__ import annotations

import click

from holdfast.cli.command import Group
from holdfast.cli.json_values import worker_presence
from holdfast.cli.output import Column, Output
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.store import Store
from holdfast.observability.presence import WorkerPresence, read_presence, read_presences


@click.group(cls=Group)
def worker() -> None:
    """Show the workers that run.

    Every worker writes to the store every few seconds that it runs. A worker that was killed disappears after 20
    seconds.
    """


@worker.command("list")
@click.option("--json", "as_json", is_flag=True, help='JSON: {"items": [...]}.')
@pass_session
def list_(session: Session, *, as_json: bool) -> None:
    """List the workers of one space, in order of their names."""
    shown = read_presences(_store(session))
    if as_json:
        session.output.print_json({"items": [worker_presence(one) for one in shown]})
        return
    if not shown:
        session.output.print_note("no worker runs")
        return
    session.output.print_table(
        [
            Column(title="NAME", truncate=True),
            Column(title="STATE"),
            Column(title="HOST", truncate=True),
            Column(title="PID", align_right=True),
            Column(title="RUNNING", align_right=True),
            Column(title="HELD", align_right=True),
            Column(title="BEAT", align_right=True),
            Column(title="UP", align_right=True),
            Column(title="VERSION"),
            Column(title="QUEUES", truncate=True),
        ],
        [_cells(session.output, one) for one in shown],
    )


def _store(session: Session) -> Store:
    """Open the store. Fail if it has no registry: nobody knows then which workers run."""
    store = session.store()
    store.capabilities.require(Feature.REGISTRY)
    return store


def _cells(output: Output, one: WorkerPresence) -> tuple[object, ...]:
    return (
        one.name,
        one.state,
        one.host,
        one.pid,
        f"{one.running}/{one.processes * one.concurrency}",
        one.held,
        output.age(one.beat_at),
        output.age(one.started_at),
        one.version,
        ",".join(one.queues),
    )


@worker.command()
@click.argument("name", metavar="NAME")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_session
def show(session: Session, name: str, *, as_json: bool) -> None:
    """Show one worker."""
    one = read_presence(_store(session), name)
    if one is None:
        raise CommandFailed(ExitCode.NOT_FOUND, f"no worker {name} runs in this space")
    if as_json:
        session.output.print_json(worker_presence(one))
        return
    more = f" and {one.omitted_types} more" if one.omitted_types else ""
    session.output.print_fields(
        [
            ("name", one.name),
            ("state", one.state),
            ("host", one.host),
            ("pid", one.pid),
            ("queues", ", ".join(one.queues)),
            ("types", ", ".join(one.types) + more),
            ("holdfast", one.version),
            ("python", one.python),
            ("started", session.output.instant(one.started_at)),
            ("last beat", session.output.instant(one.beat_at)),
            ("processes", f"{one.processes}, each with {one.concurrency} jobs at a time"),
            ("running", one.running),
            ("held", one.held),
        ]
    )
