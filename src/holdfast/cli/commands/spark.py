"""``holdfast spark``: the same jobs, run on a Spark cluster or on local Spark."""

from __future__ import annotations

from datetime import timedelta

import click

from holdfast.cli.commands.work import DRAIN, app_of
from holdfast.cli.optional_packages import master_option, spark_engine
from holdfast.cli.parameters import LENGTH, SETTING
from holdfast.cli.session import Command, Session, pass_session
from holdfast.worker.options import WorkerOptions


@click.group()
def spark() -> None:
    """Run jobs on Spark."""


@spark.command("work", cls=Command)
@click.argument("app_path", metavar="MODULE:APP")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Repeatable; by default those of the handlers.")
@click.option("--slots", type=click.IntRange(1, 100_000), help="Spark tasks that work; by default one for each core.")
@click.option("--for", "stop_after", type=LENGTH, help="Stop after so long; by default when nothing is left to do.")
@master_option
@click.option("--conf", type=SETTING, multiple=True, metavar="KEY=VALUE", help="A setting of Spark; repeatable.")
@click.option("--lease", type=LENGTH, default="15s", show_default=True, help="Extended every third of it.")
@click.option("--drain", type=DRAIN, default="25s", show_default=True, help="For running jobs after a stop.")
@click.option(
    "--grace", type=LENGTH, default="2s", show_default=True, help="From interrupting a handler to killing it."
)
@click.option("--json", "as_json", is_flag=True, help='JSON at the end: {"acked": ..., ...}.')
@pass_session
def work(
    session: Session,
    app_path: str,
    *,
    queues: tuple[str, ...],
    slots: int | None,
    stop_after: timedelta | None,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
    lease: timedelta,
    drain: timedelta | None,
    grace: timedelta,
    as_json: bool,
) -> None:
    """Drain the queues of an app on Spark.

    Every slot is a Spark task that reserves, runs and settles on its own; a Spark task that is killed or retried loses
    nothing. Ctrl-C lets the slots drain first.
    """
    engine = spark_engine()
    app = app_of(app_path, session)
    options = WorkerOptions(queues=tuple(dict.fromkeys(queues)) or None, lease=lease, drain=drain, grace=grace)
    try:
        rows = engine.run_queue(
            app,
            spark=engine.session(master, **dict(conf)),
            slots=slots,
            options=options,
            stop_after=stop_after,
            progress=not as_json,
        )
        tally = {row["ending"]: row["count"] for row in rows.groupBy("ending").count().collect()}
    finally:
        app.close()
    if as_json:
        session.screen.document(dict(sorted(tally.items())))
    else:
        session.screen.line(", ".join(f"{count} {ending}" for ending, count in sorted(tally.items())) or "nothing done")
