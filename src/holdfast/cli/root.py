"""``holdfast``: every command under one name."""

from __future__ import annotations

import click

from holdfast.cli.command import Root
from holdfast.cli.commands.audit import audit
from holdfast.cli.commands.conform import conform
from holdfast.cli.commands.cron import cron
from holdfast.cli.commands.dead import dead
from holdfast.cli.commands.doctor import doctor
from holdfast.cli.commands.domain import domain
from holdfast.cli.commands.enqueue import enqueue
from holdfast.cli.commands.history import history
from holdfast.cli.commands.init import init
from holdfast.cli.commands.job import job
from holdfast.cli.commands.keys import keys
from holdfast.cli.commands.ledger import ledger
from holdfast.cli.commands.maintenance import reap, trim
from holdfast.cli.commands.metrics import metrics
from holdfast.cli.commands.queue import queue
from holdfast.cli.commands.queue_order import order
from holdfast.cli.commands.report import report
from holdfast.cli.commands.retention import retention
from holdfast.cli.commands.schema import schema
from holdfast.cli.commands.serve import serve
from holdfast.cli.commands.space import space
from holdfast.cli.commands.spark import spark
from holdfast.cli.commands.work import work
from holdfast.cli.commands.worker import worker


@click.group(cls=Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(package_name="holdfast")
def root() -> None:
    """A lease-based job queue: enqueue, run and inspect jobs, and maintain their store.

    The store is given by --url, HOLDFAST_URL, or url in a holdfast.toml in this folder or above it; store:NAME is a
    store by its name there.

    \b
    Exit codes: 0 success, 1 failure, 2 bad usage, 3 store unavailable,
    4 not found, 5 timed out, 130 interrupted.
    """  # noqa: D301 - \b stops click from rewrapping the paragraph


for command in (
    init,
    work,
    worker,
    serve,
    enqueue,
    job,
    queue,
    domain,
    cron,
    dead,
    ledger,
    reap,
    trim,
    retention,
    space,
    doctor,
    keys,
    metrics,
    schema,
    conform,
    spark,
    history,
    audit,
    report,
):
    root.add_command(command)
queue.add_command(order)
