"""How an event is logged: one record of the standard ``logging``, readable with any formatter.

The record has the attribute ``event`` and one attribute per field, for formatters that write fields. Its message is the
event followed by the fields, for all other formatters.
"""

from __future__ import annotations

import functools
import logging
import types
from collections.abc import Mapping
from typing import TypeAlias

from holdfast.log.events import WORKER_LOGGER, Event
from holdfast.model.control_characters import quote

_logger = functools.cache(logging.getLogger)
log = _logger(WORKER_LOGGER)

LONG_FIELDS = frozenset({"frames"})  # attributes of records, and of JSON lines, but not of texts for people

_ErrorInfo: TypeAlias = tuple[type[BaseException], BaseException, types.TracebackType | None]


class FieldsText:
    """Fields as ``name=value`` texts, made only if a formatter asks for the message."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields

    def __str__(self) -> str:
        return " ".join(
            f"{name}={field_text(value)}" for name, value in self._fields.items() if name not in LONG_FIELDS
        )


def field_text(value: object) -> str:
    """Return the value of a field as one word: control characters in it cannot forge a line."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return quote(",".join(f"{name}:{one}" for name, one in value.items()))
    if isinstance(value, list | tuple):
        return quote(",".join(map(str, value)))
    return quote(value if isinstance(value, str) else str(value))


def log_event(event: Event, /, **fields: object) -> None:
    """Log one event. Fields that are None are left out."""
    logger = _logger(event.logger)
    if logger.isEnabledFor(event.level):
        _log(logger, event.level, event.name, fields, None)


def log_failure(event: Event, error: BaseException, /, **fields: object) -> None:
    """Log an unexpected exception with its traceback, as an error."""
    logger = _logger(event.logger)
    if logger.isEnabledFor(logging.ERROR):
        _log(logger, logging.ERROR, event.name, fields, (type(error), error, error.__traceback__))


def _log(logger: logging.Logger, level: int, name: str, fields: Mapping[str, object], error: _ErrorInfo | None) -> None:
    """Pass one record to the handlers.

    The calling code is not looked up: that would take as long as the rest, and the event is unique.
    """
    present = {field: value for field, value in fields.items() if value is not None}
    extra = {"event": name, **present}
    logger.handle(
        logger.makeRecord(logger.name, level, "", 0, f"{name} %s", (FieldsText(present),), error, extra=extra)
    )
