"""How a worker logs an event: one record of the standard ``logging``, readable with any formatter.

The record has the attribute ``event`` and one attribute per field, for formatters that write fields. Its message is the
event followed by the fields, for all other formatters.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Mapping
from typing import TypeAlias

from holdfast.model.control_characters import quote

log = logging.getLogger("holdfast.worker")

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


def log_event(level: int, event: str, /, **fields: object) -> None:
    """Log one event. Fields that are None are left out."""
    if log.isEnabledFor(level):
        _log(level, event, fields, None)


def log_failure(event: str, error: BaseException, /, **fields: object) -> None:
    """Log an unexpected exception with its traceback."""
    if log.isEnabledFor(logging.ERROR):
        _log(logging.ERROR, event, fields, (type(error), error, error.__traceback__))


def _log(level: int, event: str, fields: Mapping[str, object], error: _ErrorInfo | None) -> None:
    """Pass one record to the handlers.

    The calling code is not looked up: that would take as long as the rest, and the event is unique.
    """
    present = {name: value for name, value in fields.items() if value is not None}
    extra = {"event": event, **present}
    log.handle(log.makeRecord(log.name, level, "", 0, f"{event} %s", (FieldsText(present),), error, extra=extra))
