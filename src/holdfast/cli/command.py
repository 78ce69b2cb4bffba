"""The click classes of every command: shared options anywhere on the line, and every failure as one line and a code."""

from __future__ import annotations

import errno
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from holdfast.cli.session import CommandFailed, ExitCode, Session
from holdfast.errors import ConnectError, HoldfastError, InvalidInput, StoreError
from holdfast.model.control_characters import escape_control_characters
from holdfast.model.suggestion import did_you_mean
from holdfast.settings import FILE_NAME


class Command(click.Command):
    """A command that accepts the shared options too, so that their place on the line does not matter."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _shared_options()


class Group(click.Group):
    """A group of commands that accepts the shared options."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _shared_options()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of these arguments. An unknown one is an error with the most similar name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = did_you_mean(args[0], self.commands)
            if not near:
                raise
            raise click.UsageError(error.message.removesuffix(".") + near, ctx) from error

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        """Return the commands in the order in which they were added: common commands first."""
        return list(self.commands)


class Root(Group):
    """``holdfast`` itself: reports every failure as one line and an exit code."""

    def run(self, arguments: Sequence[str] | None = None) -> int:
        """Run one command and return its exit code; raises nothing."""
        session = Session()
        try:
            super().main(arguments, prog_name="holdfast", standalone_mode=False, obj=session)
            sys.stdout.flush()
            return ExitCode.OK
        except Exception as error:  # noqa: BLE001 - the outermost handler; --debug shows the traceback
            return _report(session, error)
        except KeyboardInterrupt as error:
            if str(error):  # Spark slots say how far they got
                _write_error(f"holdfast: {error}\n")
            return ExitCode.INTERRUPTED
        finally:
            session.close()
            _drop_unwritable_output()

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> Any:
        """Run and exit: click's own entry point, which its test runner uses."""
        sys.exit(self.run(args))


def _shared_options() -> list[click.Parameter]:
    stored: dict[str, Any] = {"expose_value": False, "callback": _store_option}
    return [
        click.Option(["--url"], metavar="URL", help="The store: sqlite:///jobs.db or store:NAME.", **stored),
        click.Option(["--space"], metavar="NAME", help="The space (tenant) in the store.", **stored),
        click.Option(
            ["--config"],
            metavar="FILE",
            help=f"The settings file; by default {FILE_NAME} here or above.",
            **stored,
        ),
        click.Option(["--debug"], is_flag=True, help="Show a traceback when something fails.", **stored),
    ]


def _store_option(context: click.Context, option: click.Parameter, value: Any) -> None:
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


def _report(session: Session, error: Exception) -> int:
    """Print one line about the failure and return the exit code."""
    match error:
        case click.exceptions.Abort():
            return ExitCode.INTERRUPTED
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return ExitCode.USAGE
        case RuntimeError(__cause__=SystemExit()):  # an early signal; see ``holdfast.cli.main``
            return 0
        case OSError(errno=errno.EPIPE):  # the reader of the pipe has exited
            return ExitCode.FAILED
    code, text = _code_and_text(error)
    shown = error.__cause__ if isinstance(error, CommandFailed) else error
    if text and session.output.formatter is not None:
        line = session.output.format_note(text, level=logging.ERROR, error=shown if session.debug else None)
        _write_error(session.without_secrets(line) + "\n")
        return code
    if session.debug and shown is not None:
        _write_error(session.without_secrets("".join(traceback.format_exception(shown))))
    if text:
        _write_error(f"holdfast: {escape_control_characters(session.without_secrets(text))}\n")
    return code


def _write_error(text: str) -> None:
    with suppress(OSError):  # a full disk behind stderr: the exit code still says what happened
        sys.stderr.write(text)


def _drop_unwritable_output() -> None:
    """Discard what cannot be written: Python's own flush at exit would fail again and turn every exit code into 120."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed before the start
        try:
            stream.flush()
        except OSError:
            with Path(os.devnull).open("wb") as nothing:
                os.dup2(nothing.fileno(), stream.fileno())


def _code_and_text(error: Exception) -> tuple[ExitCode, str]:
    match error:
        case CommandFailed():
            return error.code, str(error)
        case click.ClickException():
            return ExitCode.USAGE, error.format_message()
        case StoreError():
            return ExitCode.UNAVAILABLE, str(error)
        case InvalidInput() | ConnectError():
            return ExitCode.USAGE, str(error)
        case HoldfastError() | OSError():  # also a full disk behind stdout
            return ExitCode.FAILED, str(error)
        case _:
            return ExitCode.FAILED, f"{type(error).__name__}: {error} (a bug in Holdfast; --debug shows where)"
