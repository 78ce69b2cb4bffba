"""What every command stands on: the settings, the store behind them, and the options that all commands share."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from holdfast.cli import schema_access
from holdfast.cli.output import Screen, visible
from holdfast.connect import connect
from holdfast.drivers.contract import Store
from holdfast.errors import ConnectError, HoldfastError, InvalidInput, StoreError, StoreUnavailable
from holdfast.settings import FILE_NAME, Settings, mask_secrets, read


class Code(IntEnum):
    """How a command ended, for scripts."""

    OK = 0
    WRONG = 1
    USAGE = 2
    UNAVAILABLE = 3
    NOT_FOUND = 4
    TIMED_OUT = 5
    INTERRUPTED = 130


class Stop(Exception):
    """Ends a command with a code, and one line if there is something to say."""

    def __init__(self, code: Code, text: str = "") -> None:
        super().__init__(text)
        self.code = code


class Session:
    """One run of the command. Opens nothing before it is asked to."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}
        self.config: Path | None = None
        self.debug = False
        self.screen = Screen()
        self._opened: list[Store] = []

    @cached_property
    def settings(self) -> Settings:
        """File, then environment, then arguments."""
        return read(self.given, file=self.config)

    @property
    def url(self) -> str:
        """The store's URL; a command that needs one says how to give it."""
        if self.settings.url is None:
            raise Stop(
                Code.USAGE, f"no store: give --url sqlite:///jobs.db, set HOLDFAST_URL, or write url into {FILE_NAME}"
            )
        return self.settings.url

    def store(self, *, create: bool = False) -> Store:
        """The store in the space that was asked for. One that is not there yet is made only by ``create``."""
        if not create:
            found = schema_access.look(self.url)
            if found is not None and not found.applied:
                raise StoreUnavailable(
                    f"no store at {mask_secrets(self.url)} yet: enqueue a job, or run `holdfast schema install`"
                )
        store = connect(self.url, space=self.settings.space)
        self._opened.append(store)
        return store

    def close(self) -> None:
        """Close what was opened."""
        while self._opened:
            self._opened.pop().close()

    def shown(self, text: str) -> str:
        """A message without the secrets of the store's URL, on one line."""
        urls = {self.given.get("url", ""), os.environ.get("HOLDFAST_URL", "")}
        if "settings" in self.__dict__:
            urls.add(self.settings.url or "")
        for url in sorted(urls - {""}, key=len, reverse=True):
            text = text.replace(url, mask_secrets(url))
        return text


pass_session = click.make_pass_decorator(Session)


# Options of every command -----------------------------------------------------------------------------------


def _remember(context: click.Context, option: click.Parameter, value: Any) -> None:
    session = context.find_object(Session)
    if value is None or value is False or session is None:
        return
    match option.name:
        case "debug":
            session.debug = True
        case "config":
            session.config = Path(value)
        case str(name):
            session.given[name] = value


def _shared() -> list[click.Parameter]:
    kept: dict[str, Any] = {"expose_value": False, "callback": _remember}
    return [
        click.Option(["--url"], metavar="URL", help="The store, e.g. sqlite:///jobs.db.", **kept),
        click.Option(["--space"], metavar="NAME", help="The tenant to look at.", **kept),
        click.Option(
            ["--config"], metavar="FILE_NAME", help=f"Settings, instead of the {FILE_NAME} found upwards.", **kept
        ),
        click.Option(["--debug"], is_flag=True, help="Show a traceback when something fails.", **kept),
    ]


class Command(click.Command):
    """A command that takes the shared options too, so that their place on the line does not matter."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _shared()


class Group(click.Group):
    """A group of such commands."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _shared()

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        """In the order in which they were added: the usual ones first."""
        return list(self.commands)


class Root(Group):
    """``holdfast`` itself: every failure ends here, as one line and a code."""

    def run(self, arguments: Sequence[str] | None = None) -> int:
        """Run one command; gives its exit code and lets nothing through."""
        session = Session()
        try:
            super().main(arguments, prog_name="holdfast", standalone_mode=False, obj=session)
            sys.stdout.flush()
            return Code.OK
        except Exception as error:  # noqa: BLE001 - the last door: a traceback is for --debug
            return _told(session, error)
        except KeyboardInterrupt:
            return Code.INTERRUPTED
        finally:
            session.close()

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> Any:
        """The same for click's own ways in, its test runner among them."""
        sys.exit(self.run(args))


def _told(session: Session, error: Exception) -> int:
    """Say what went wrong in one line; gives the exit code."""
    match error:
        case click.exceptions.Abort():
            return Code.INTERRUPTED
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return Code.USAGE
        case OSError(errno=errno.EPIPE):  # the reader of a pipe has gone: nobody is left to be told
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return Code.WRONG
    code, text = _judged(error)
    if session.debug and not isinstance(error, Stop):
        sys.stderr.write(session.shown("".join(traceback.format_exception(error))))
    if text:
        sys.stderr.write(f"holdfast: {visible(session.shown(text))}\n")
    return code


def _judged(error: Exception) -> tuple[Code, str]:
    match error:
        case Stop():
            return error.code, str(error)
        case click.ClickException():
            return Code.USAGE, error.format_message()
        case StoreError():
            return Code.UNAVAILABLE, str(error)
        case InvalidInput() | ConnectError():
            return Code.USAGE, str(error)
        case HoldfastError():
            return Code.WRONG, str(error)
        case _:
            return Code.WRONG, f"{type(error).__name__}: {error} (a bug in Holdfast; --debug shows where)"
