"""Where the log of ``holdfast work`` goes: stderr, one write per record, in the chosen format.

Handlers run in child processes that inherit stderr and this handler, so their records look alike. Each record is one
``write``: the lines of several processes do not mix. The kernel promises that for lines of up to 4 KiB in a pipe, and
for lines of any length in a file or a terminal. There is no lock between the processes: a child that is stopped while
it holds the lock would stop the worker, and with it all heartbeats.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TextIO

from holdfast.observability.log_format import JobFields, JsonFormatter, TerminalFormatter
from holdfast.observability.redaction import Redaction
from holdfast.settings import LogFormat, Settings


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes each record by one call of the kernel, past the buffer of the stream."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record. A log that cannot be written must not fail a job."""
        try:
            data = f"{self.format(record)}\n".encode(errors="backslashreplace")
            try:
                descriptor = self.stream.fileno()
            except (OSError, ValueError):  # a stream of a test or a notebook
                self.stream.write(data.decode())
                return
            self.stream.flush()
            while data:
                data = data[os.write(descriptor, data) :]
        except (BrokenPipeError, BlockingIOError):  # nobody reads the log
            pass
        except Exception:  # noqa: BLE001 - as ``logging`` does it
            self.handleError(record)


def configure_logging(settings: Settings, *, stream: TextIO | None = None) -> None:
    """Write the log and the warnings of this process, and of those that it forks, to stderr as the settings say.

    If the program has configured ``logging`` itself, its handlers stay, and nothing is added. A format that is chosen
    explicitly replaces the handlers that write to stdout or stderr.
    """
    root = logging.getLogger()
    if root.handlers:
        if not settings.is_chosen("log"):
            if settings.is_chosen("log_level"):
                root.setLevel(settings.log_level.upper())
            return
        for handler in [handler for handler in root.handlers if _writes_to_terminal(handler)]:
            root.removeHandler(handler)
    stream = stream or sys.stderr
    redaction = Redaction(settings.log_redact)
    handler = LineHandler(stream)
    handler.addFilter(JobFields())
    match settings.log:
        case LogFormat.JSON:
            handler.setFormatter(JsonFormatter(redaction))
        case LogFormat.TEXT:
            handler.setFormatter(TerminalFormatter(redaction, colours=_shows_colours(stream)))
    root.addHandler(handler)
    root.setLevel(settings.log_level.upper())
    logging.captureWarnings(True)  # noqa: FBT003 - the signature of logging; a warning is a record like any other


def _writes_to_terminal(handler: logging.Handler) -> bool:
    return type(handler) is logging.StreamHandler and handler.stream in {sys.stdout, sys.stderr}


def _shows_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
