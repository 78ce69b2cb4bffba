"""What ``holdfast work`` and ``holdfast spark work`` share: the app, the options of its workers, the final counts."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

import holdfast
from holdfast.app import Holdfast
from holdfast.cli import early_signals
from holdfast.cli.parameters import DURATION, DURATION_OR_FOREVER, LEASE, add_options
from holdfast.cli.session import CommandFailed, ExitCode, Session
from holdfast.drivers.requests import Counts, Settings
from holdfast.drivers.store import Store
from holdfast.errors import HoldfastError
from holdfast.model.filters import JobFilter
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.suggestion import did_you_mean
from holdfast.settings import FILE_NAME, PREFIX, mask_secrets

_PACKAGES = tuple(  # code that the user did not write
    f"{folder}{os.sep}"
    for folder in {str(Path(holdfast.__file__).parent), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))}
)


def import_module(name: str) -> types.ModuleType:
    """Return the module; modules in the working directory are found. Raises ``CommandFailed``."""
    if "" not in sys.path:
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - sys.path holds texts
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            hint = f": wanted a module such as {Path(name).stem}, got a file" if name.endswith(".py") else ""
            raise CommandFailed(ExitCode.NOT_FOUND, f"no module {name} here or on the Python path{hint}") from None
        raise _failed(name, error) from error
    except (Exception, SystemExit) as error:
        if early_signals.stop_requested.is_set():  # the SystemExit of a signal, or what the module made of it
            raise SystemExit(0) from None
        raise _failed(name, error) from error


def _failed(name: str, error: BaseException) -> CommandFailed:
    where = "".join(f"{position}: " for position in [_position(error)] if position)
    what = error.msg if isinstance(error, SyntaxError) else str(error)
    text = f"importing {name} failed: {where}{type(error).__name__}{': ' if what else ''}{what}"
    return CommandFailed(ExitCode.FAILED, f"{text} (--debug shows the traceback)")


def _position(error: BaseException) -> str | None:
    """The file and the line of the user's code that failed, or that called what failed."""
    if isinstance(error, SyntaxError) and error.filename is not None and not error.filename.startswith(_PACKAGES):
        return f"{_short(error.filename)}, line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    users = [frame for frame in frames if not frame.filename.startswith(_PACKAGES)]
    last = (users or frames)[-1:]
    return f"{_short(last[0].filename)}, line {last[0].lineno}" if last else None


def _short(filename: str) -> str:
    """The file, relative to the working directory if it is in there."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


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
