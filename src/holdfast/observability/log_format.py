"""One log record as one line: for a terminal, or as JSON. Secrets are masked, and control characters are escapes."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from holdfast.log.records import LONG_FIELDS, field_text, log
from holdfast.model.control_characters import escape_all, escape_json
from holdfast.observability.redaction import Redaction
from holdfast.worker import job_log

EVENT_CHARACTERS = 15  # the width of the events: fields begin in one column
LEVEL_CHARACTERS = 7
TRACEBACK_INDENT = "    "  # a line of a record begins with a time, so an indented line cannot pass for one

_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_encode = msgspec.json.Encoder().encode

RESET, BOLD, DIM = "\x1b[0m", "\x1b[1m", "\x1b[2m"
LEVEL_COLOURS = {
    logging.DEBUG: DIM,
    logging.INFO: "\x1b[32m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[31;1m",
}


class JobFields(logging.Filter):
    """A filter for handlers: adds the fields of the running job to every record that its handler logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields that the record does not have, and keep the record."""
        for name, value in job_log.current_fields().items():
            record.__dict__.setdefault(name, value)
        return True


class _Formatter(logging.Formatter):
    def __init__(self, redaction: Redaction | None = None) -> None:
        super().__init__()
        self._redaction = redaction or Redaction()

    def _message(self, record: logging.LogRecord) -> str:
        """The event of a worker's record, else the message of the program."""
        if record.name == log.name and "event" in record.__dict__:
            return str(record.__dict__["event"])
        return self._redaction.text(record.getMessage())

    def _fields(self, record: logging.LogRecord) -> Iterator[tuple[str, object]]:
        redact = self._redaction.value
        for name, value in record.__dict__.items():
            if name not in _STANDARD_ATTRIBUTES and (name != "event" or record.name != log.name):
                yield name, redact(name, value)

    def _traceback(self, record: logging.LogRecord) -> str:
        texts = []
        if record.exc_info and record.exc_info[0] is not None:
            texts.append(self.formatException(record.exc_info))
        elif record.exc_text:
            texts.append(record.exc_text)
        if record.stack_info:
            texts.append(self.formatStack(record.stack_info))
        return self._redaction.text("\n".join(texts)) if texts else ""


class JsonFormatter(_Formatter):
    """One JSON object per line: ``time``, ``level``, ``logger``, ``message``, the fields, and ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON without line breaks."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._message(record),
        }
        for name, value in self._fields(record):
            line.setdefault(name, value)
        traceback = self._traceback(record)
        if traceback:
            line["exception"] = traceback
        try:
            return escape_json(_encode(line).decode())
        except Exception:  # noqa: BLE001 - half a surrogate pair, or an integer of more than 64 bits
            return json.dumps(line)


class TerminalFormatter(_Formatter):
    """Aligned columns: time, level, event or message, fields. A traceback follows in indented lines."""

    def __init__(self, redaction: Redaction | None = None, *, colours: bool = False) -> None:
        super().__init__(redaction)
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, and its traceback below it."""
        fields = " ".join(
            f"{self._dim(f'{escape_all(name)}=')}{field_text(value)}"
            for name, value in self._fields(record)
            if name not in LONG_FIELDS
        )
        level = f"{record.levelname.lower():<{LEVEL_CHARACTERS}}"
        message = escape_all(self._message(record))
        padding = " " * max(0, EVENT_CHARACTERS - len(message)) if fields else ""
        if self._colours:
            level = f"{LEVEL_COLOURS.get(record.levelno, '')}{level}{RESET}"
            message = f"{BOLD}{message}{RESET}"
        line = f"{_time(record)} {level} {message}{padding} {fields}".rstrip()
        traceback = self._traceback(record)
        return "\n".join([line, *(TRACEBACK_INDENT + escape_all(one) for one in _lines(traceback))])

    def _dim(self, text: str) -> str:
        return f"{DIM}{text}{RESET}" if self._colours else text


def _time(record: logging.LogRecord) -> str:
    """The time of a record in UTC, with six digits, as everywhere in the command."""
    seconds, fraction = divmod(record.created, 1)
    return f"{_second(int(seconds))}.{int(fraction * 1_000_000):06}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _lines(text: str) -> list[str]:
    return re.split("\r\n|\r|\n", text) if text else []
