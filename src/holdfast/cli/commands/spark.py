"""``holdfast spark``: run jobs on a Spark cluster or on local Spark."""

from __future__ import annotations

import os
from datetime import timedelta

import click

from holdfast.cli.app_commands import app_options, load_app, note_unknown_queues, print_counts
from holdfast.cli.command import Command
from holdfast.cli.parameters import DURATION, SPARK_SETTING
from holdfast.cli.session import Session, pass_session
from holdfast.cli.spark_access import load_spark, master_option
from holdfast.settings import CONFIG
from holdfast.worker.options import WorkerOptions


@click.group()
def spark() -> None:
    """Run jobs on Spark."""


@spark.command("work", cls=Command)
@app_options
@click.option("--slots", type=click.IntRange(1, 100_000), help="Spark tasks that run jobs; by default one per core.")
@click.option("--for", "stop_after", type=DURATION, help="Stop after this long; by default when the queues are empty.")
@master_option
@click.option("--conf", type=SPARK_SETTING, multiple=True, metavar="KEY=VALUE", help="A Spark setting; repeatable.")
@pass_session
def work(
    session: Session,
    app_path: str | None,
    *,
    queues: tuple[str, ...],
    slots: int | None,
    stop_after: timedelta | None,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
    lease: timedelta | None,
    drain: timedelta | None,
    grace: timedelta,
    as_json: bool,
) -> None:
    """Run the jobs of an app's queues on Spark.

    Every slot is a Spark task that reserves, runs and settles its own jobs. If a Spark task is killed or retried, no
    job is lost. After SIGINT (Ctrl-C) or SIGTERM, running jobs may still finish within the drain time. A second signal
    does not wait.
    """
    engine = load_spark()
    if session.config is not None:
        os.environ[CONFIG] = str(session.config.absolute())  # executors of this machine inherit it
    app = load_app(app_path, session)
    options = WorkerOptions(queues=tuple(dict.fromkeys(queues)) or None, lease=lease, drain=drain, grace=grace)
    note_unknown_queues(session, app, options.queues or ())
    try:
        rows = engine.run_queue(
            app,
            spark=engine.session(master, debug=session.debug, **dict(conf)),
            slots=slots,
            options=options,
            stop_after=stop_after,
            progress=not as_json,
        )
        counts = {row["ending"]: row["count"] for row in rows.groupBy("ending").count().collect()}
    finally:
        app.close()
    print_counts(session, counts, as_json=as_json)
