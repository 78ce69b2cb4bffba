"""``holdfast work``: run the handlers of an app until a signal stops the worker."""

from __future__ import annotations

import os
from datetime import timedelta

import click

from holdfast.cli import early_signals
from holdfast.cli.app_commands import app_options, load_app, note_unknown_queues, print_counts
from holdfast.cli.command import Command
from holdfast.cli.metrics_access import ADDRESS, worker_endpoint
from holdfast.cli.parameters import POSITIVE_DURATION
from holdfast.cli.session import Session, pass_session
from holdfast.clock import to_timedelta
from holdfast.model import duration
from holdfast.observability.log_output import configure_logging
from holdfast.settings import LogFormat, LogLevel
from holdfast.worker.limits import MEBIBYTE, Limits
from holdfast.worker.options import WorkerOptions


@click.command(cls=Command)
@app_options
@click.option("--processes", type=click.IntRange(1, 1024), help="Child processes; by default one per core.")
@click.option(
    "--concurrency", type=click.IntRange(1, 1024), default=1, show_default=True, help="Jobs at a time in each process."
)
@click.option("--until-drained", is_flag=True, help="Stop when the queues are empty.")
@click.option("--max-jobs", type=click.IntRange(1), help="Stop after this many jobs.")
@click.option(
    "--cron/--no-cron",
    default=None,
    help="Fire schedules, too; by default if the app has some, and without --until-drained and --max-jobs.",
)
@click.option("--recycle-after", type=click.IntRange(1), help="Replace a child process after this many jobs.")
@click.option(
    "--recycle-above", type=click.IntRange(1), metavar="MIB", help="Replace a child process that uses more memory."
)
@click.option("--keep-processes", is_flag=True, help="Do not end the processes that an attempt leaves behind.")
@click.option("--memory", type=click.IntRange(64), metavar="MIB", help="Memory limit of a child process.")
@click.option("--cpu", type=POSITIVE_DURATION, help="Limit of processor time for one attempt.")
@click.option("--log", type=click.Choice([*map(str, LogFormat)]), help="Format of the log on stderr; by default text.")
@click.option("--log-level", type=click.Choice([*map(str, LogLevel)]), help="Lowest level of the log; by default info.")
@click.option(
    "--metrics",
    "address",
    type=ADDRESS,
    metavar="HOST:PORT",
    help="Serve /metrics, /healthz and /readyz there; without a host on 127.0.0.1.",
)
@pass_session
def work(
    session: Session,
    app_path: str | None,
    *,
    queues: tuple[str, ...],
    processes: int | None,
    concurrency: int,
    lease: timedelta | None,
    drain: timedelta | None,
    grace: timedelta,
    max_jobs: int | None,
    cron: bool | None,
    recycle_after: int | None,
    recycle_above: int | None,
    keep_processes: bool,
    memory: int | None,
    cpu: timedelta | None,
    until_drained: bool,
    log: str | None,
    log_level: str | None,
    address: tuple[str, int] | None,
    as_json: bool,
) -> None:
    """Run the handlers of an app.

    SIGTERM or SIGINT stops the worker: it reserves no more jobs, waits for running jobs until the drain time is over,
    and releases the rest without counting an attempt. A second signal skips the drain time.

    A worker of an app with schedules fires them, beside all other workers and schedulers: each fire happens once.
    """
    session.use_options(log=log, log_level=log_level)
    logs_json = session.settings.log is LogFormat.JSON
    app = load_app(app_path, session)
    options = WorkerOptions(
        queues=tuple(dict.fromkeys(queues)) or None,
        processes=processes or os.cpu_count() or 1,
        concurrency=concurrency,
        lease=lease,
        drain=drain,
        grace=grace,
        until_drained=until_drained,
        max_jobs=max_jobs,
        cron=cron,
        limits=Limits(memory=None if memory is None else memory * MEBIBYTE, cpu=cpu),
        recycle_after=recycle_after,
        recycle_above=None if recycle_above is None else recycle_above * MEBIBYTE,
        keep_processes=keep_processes,
    )
    configure_logging(session.settings)
    endpoint, observers = (None, []) if address is None else worker_endpoint(app, address)
    worker = app.worker(options, observers=observers)
    note_unknown_queues(session, app, options.queues or ())
    if not as_json and not logs_json:  # else the log says so: worker.started
        names = ", ".join(worker.queues)
        types = len(app.catalogue.types)
        noun = "job type" if types == 1 else "job types"
        session.output.print_line(
            f"{worker.name}: {options.processes * concurrency} jobs at a time from {names}; "
            f"lease {duration.format_exact(to_timedelta(worker.options.lease_for))}; {types} {noun}"
            + ("" if endpoint is None else f"; {endpoint.url}/metrics")
        )
    try:
        counts = worker.run(early_signals.stop_requested)
    finally:
        if endpoint is not None:
            endpoint.close()
        app.close()
    if not logs_json:  # else the log says so: worker.stopped
        print_counts(session, counts, as_json=as_json)
    elif as_json:
        session.output.print_json_line(counts)
