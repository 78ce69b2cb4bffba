"""The app that ``MODULE:APP`` names."""

from __future__ import annotations

import importlib
import os
import sys

from holdfast.app import Holdfast
from holdfast.cli.session import CommandFailed, ExitCode, Session


def load_app(path: str, session: Session) -> Holdfast:
    """Import the app and apply ``--url`` and ``--space``. Modules in the working directory are found too."""
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise CommandFailed(ExitCode.USAGE, f"wanted MODULE:APP such as tasks:app, got {path}")
    if "" not in sys.path:
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - sys.path holds texts
    try:
        app = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise
        raise CommandFailed(ExitCode.NOT_FOUND, f"no module {module} here or on the Python path") from error
    except AttributeError as error:
        raise CommandFailed(ExitCode.NOT_FOUND, f"{module} has no {name}") from error
    if not isinstance(app, Holdfast):
        raise CommandFailed(ExitCode.USAGE, f"wanted a Holdfast app in {path}, got {type(app).__name__}")
    if "url" in session.given:
        app.url = session.given["url"]
    if "space" in session.given:
        app.space = session.given["space"]
    if not app.catalogue.types:
        raise CommandFailed(ExitCode.USAGE, f'{path} has no handlers: decorate a function with @{name}.handler("type")')
    return app
