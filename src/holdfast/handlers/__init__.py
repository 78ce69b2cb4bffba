"""Built-in handlers: ``shell``, ``url``, ``event`` and ``command``. They are registered when an app asks for them.

shell = app.builtin.shell(queue="ops", timeout=timedelta(minutes=5))
shell.enqueue(ShellCommand(argv=["/usr/bin/rsync", "-a", "/srv/data/", "/mnt/backup/"]))

A handler does what its allowlist names and nothing else. An empty allowlist denies everything: the job becomes a dead
letter with a reason that begins with ``not allowed``.

This package has the payloads and results of these handlers, and is part of the public API. ``ExecutionResult`` is what
an attempt of any handler with ``capture_output`` has printed.
"""

from __future__ import annotations

from holdfast.handlers.messages import Command, Event, ShellCommand, ShellResult, UrlRequest, UrlResult
from holdfast.model.execution import ExecutionResult

__all__ = ["Command", "Event", "ExecutionResult", "ShellCommand", "ShellResult", "UrlRequest", "UrlResult"]
