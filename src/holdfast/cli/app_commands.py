"""What ``holdfast work`` and ``holdfast spark work`` share: the app, the options of its workers, the final counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from holdfast.app import Holdfast
from holdfast.cli.parameters import DURATION, DURATION_OR_FOREVER, LEASE, add_options
from holdfast.cli.session import CommandFailed, ExitCode, Session
from holdfast.cli.user_module import import_module
from holdfast.drivers.requests import Counts, Settings
from holdfast.drivers.store import Store
from holdfast.errors import HoldfastError
from holdfast.model.filters import JobFilter
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.suggestion import did_you_mean
from holdfast.settings import FILE_NAME, PREFIX, mask_secrets


def app_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument ``MODULE:APP``, by default that of the settings, and the options that every worker has."""
    options = [
        click.argument("app_path", metavar="[MODULE:APP]", required=False),
        click.option(
            "--queue",
            "queues",
            multiple=True,
            metavar="NAME",
            help="A queue; repeatable. By default the queues of the handlers.",
        ),
        click.option(
            "--lease",
            type=LEASE,
            help="Length of a lease; extended every third of it. By default that of the settings, 15s.",
        ),
        click.option(
            "--drain",
            type=DURATION_OR_FOREVER,
            default="25s",
            show_default=True,
            help="Time for running jobs after a stop, or 'forever'.",
        ),
        click.option(
            "--grace",
            type=DURATION,
            default="2s",
            show_default=True,
            help="Time between interrupting a handler and killing it.",
        ),
        click.option("--json", "as_json", is_flag=True, help='JSON at the end: {"acked": ..., ...}.'),
    ]
    return add_options(options, command)


def print_counts(session: Session, counts: Mapping[str, int], *, as_json: bool) -> None:
    """Print how many attempts ended in which way."""
    if as_json:
        session.output.print_json(dict(sorted(counts.items())))
    else:
        text = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        session.output.print_line(text or "nothing done")


def note_unknown_queues(session: Session, app: Holdfast, queues: Sequence[str]) -> None:
    """Name the queues of ``--queue`` that nobody knows: a queue exists from its first job, so each may be a typo."""
    try:
        unknown = [name for name in queues if name not in app.queues and not _is_known(app.driver, name)]
        known = {*app.queues, *(row.queue for row in app.driver.do(Counts(estimate=True)))} if unknown else set[str]()
    except HoldfastError:  # of a driver that cannot look, or a store that is out of reach: the worker reports it
        return
    for name in unknown:
        near = did_you_mean(name, sorted(known))
        session.output.print_note(f"the queue {name} has no jobs and no settings yet{near}")


def _is_known(store: Store, queue: str) -> bool:
    page = store.find(JobFilter(queue=queue), limit=1)
    return bool(page.items) or page.cursor is not None or store.do(Settings(queue=queue)) != QueueSettings()


def load_app(path: str | None, session: Session) -> Holdfast:
    """Import the app and apply the settings and the options. Modules in the working directory are found.

    Without a path, the app is that of the settings.
    """
    path = session.settings.app if path is None else path
    if path is None:
        ways = f"an argument, {PREFIX}APP, or app in {FILE_NAME}"
        raise CommandFailed(ExitCode.USAGE, f"wanted MODULE:APP such as tasks:app ({ways}), got none")
    module, colon, name = path.partition(":")
    if not (colon and name and all(module.split("."))):  # a relative module has an empty part
        raise CommandFailed(ExitCode.USAGE, f"wanted MODULE:APP such as tasks:app, got {path or repr(path)}")
    imported = import_module(module)
    if not hasattr(imported, name):
        apps = [name for name, value in vars(imported).items() if isinstance(value, Holdfast)]
        known = f"; its app is {' or '.join(apps)}" if apps else ""
        raise CommandFailed(ExitCode.NOT_FOUND, f"{module} has no {name}{known}")
    app = getattr(imported, name)
    if not isinstance(app, Holdfast):
        raise CommandFailed(ExitCode.USAGE, f"wanted a Holdfast app in {path}, got {type(app).__name__}")
    app.use_settings(session.settings, url=session.given_url, space=session.given.get("space"))
    unused = session.settings.url
    if unused is not None and app.url != unused:
        origin = session.settings.origin("url")
        session.output.print_note(f"{path} names its own store; {mask_secrets(unused)} from {origin} is not used")
    if not app.catalogue.types:
        raise CommandFailed(ExitCode.USAGE, f'{path} has no handlers: decorate a function with @{name}.handler("type")')
    return app
