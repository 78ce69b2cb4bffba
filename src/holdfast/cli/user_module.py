"""Importing the module of a user: what goes wrong in it is reported as such, with its file and line."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import traceback
import types
from pathlib import Path

import holdfast
from holdfast.cli import early_signals
from holdfast.cli.session import CommandFailed, ExitCode

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
