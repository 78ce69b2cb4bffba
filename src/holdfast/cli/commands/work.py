"""``holdfast work``: a worker for the handlers of an app, until it is told to stop."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from datetime import timedelta

import click

from holdfast.app import Holdfast
from holdfast.cli import early_signals
from holdfast.cli.parameters import LENGTH
from holdfast.cli.session import Code, Command, Session, Stop, pass_session
from holdfast.model import duration
from holdfast.worker.limits import MEBIBYTE, Limits
from holdfast.worker.options import WorkerOptions

FOREVER = "forever"


class _Drain(click.ParamType):  # type: ignore[type-arg] # generic in new versions of click only
    """A length, or ``forever`` (None)."""

    name = "length"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta | None:
        """See ``click.ParamType``."""
        return None if value == FOREVER else LENGTH.convert(value, param, ctx)


DRAIN = _Drain()


@click.command(cls=Command)
@click.argument("app_path", metavar="MODULE:APP")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Repeatable; by default those of the handlers.")
@click.option("--processes", type=click.IntRange(1, 1024), help="Child processes; by default one for each core.")
@click.option(
    "--concurrency", type=click.IntRange(1, 1024), default=1, show_default=True, help="Jobs at a time in each process."
)
@click.option("--lease", type=LENGTH, default="15s", show_default=True, help="Extended every third of it.")
@click.option(
    "--drain", type=DRAIN, default="25s", show_default=True, help="For running jobs after a stop, or 'forever'."
)
@click.option(
    "--grace", type=LENGTH, default="2s", show_default=True, help="From interrupting a handler to killing it."
)
@click.option("--until-drained", is_flag=True, help="Stop when nothing is left to do.")
@click.option("--max-jobs", type=click.IntRange(1), help="Stop after so many.")
@click.option("--recycle-after", type=click.IntRange(1), help="Replace a child process after so many jobs.")
@click.option("--recycle-above", type=click.IntRange(1), metavar="MIB", help="Replace it when it has grown so large.")
@click.option("--memory", type=click.IntRange(64), metavar="MIB", help="The most a child process may have.")
@click.option("--cpu", type=LENGTH, help="The most processor time of one attempt.")
@click.option("--json", "as_json", is_flag=True, help='JSON at the end: {"acked": ..., ...}.')
@pass_session
def work(
    session: Session,
    app_path: str,
    *,
    queues: tuple[str, ...],
    processes: int | None,
    concurrency: int,
    lease: timedelta,
    drain: timedelta | None,
    grace: timedelta,
    max_jobs: int | None,
    recycle_after: int | None,
    recycle_above: int | None,
    memory: int | None,
    cpu: timedelta | None,
    until_drained: bool,
    as_json: bool,
) -> None:
    """Run the handlers of an app.

    SIGTERM and SIGINT stop it: nothing more is reserved, running jobs get the drain time, what is left is given back
    with its attempt refunded. A second signal does not wait.
    """
    app = app_of(app_path, session)
    options = WorkerOptions(
        queues=tuple(dict.fromkeys(queues)) or None,
        processes=processes or os.cpu_count() or 1,
        concurrency=concurrency,
        lease=lease,
        drain=drain,
        grace=grace,
        until_drained=until_drained,
        max_jobs=max_jobs,
        limits=Limits(memory=None if memory is None else memory * MEBIBYTE, cpu=cpu),
        recycle_after=recycle_after,
        recycle_above=None if recycle_above is None else recycle_above * MEBIBYTE,
    )
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    worker = app.worker(options)
    if not as_json:
        names = ", ".join(worker.queues)
        session.screen.line(
            f"{worker.name}: {options.processes * concurrency} at a time from {names}; "
            f"lease {duration.format_exact(lease)}; {len(app.catalogue.types)} types"
        )
    try:
        tally = worker.run(early_signals.asked)
    finally:
        app.close()
    if as_json:
        session.screen.document(dict(sorted(tally.items())))
    else:
        session.screen.line(", ".join(f"{count} {status}" for status, count in sorted(tally.items())) or "nothing done")


def app_of(path: str, session: Session) -> Holdfast:
    """The app that MODULE:APP names; found from the working directory too, as ``python -m`` would."""
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise Stop(Code.USAGE, f"wanted MODULE:APP such as tasks:app, got {path}")
    if "" not in sys.path:
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - a text, as sys.path wants it
    try:
        found = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise
        raise Stop(Code.NOT_FOUND, f"no module {module} here or on the Python path") from error
    except AttributeError as error:
        raise Stop(Code.NOT_FOUND, f"{module} has no {name}") from error
    if not isinstance(found, Holdfast):
        raise Stop(Code.USAGE, f"wanted a Holdfast app in {path}, got {type(found).__name__}")
    if "url" in session.given:
        found.url = session.given["url"]
    if "space" in session.given:
        found.space = session.given["space"]
    if not found.catalogue.types:
        raise Stop(Code.USAGE, f'{path} has no handlers: decorate a function with @{name}.handler("type")')
    return found
