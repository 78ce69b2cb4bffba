"""The payload of a schedule: one that its handler takes, as far as the app has the handler."""

from __future__ import annotations

from typing import Any

from holdfast.errors import PayloadError
from holdfast.task import Task


def encode_payload(schedule: str, task: Task[Any, Any, ..., Any], payload: object) -> object:
    """Return the payload of a schedule as JSON. Raises ``PayloadError`` for one that the handler does not take."""
    try:
        return task.handler.encode(payload)
    except PayloadError as error:
        field = f"payload of the schedule {schedule}"
        if payload is not None:
            raise PayloadError(field, wanted=error.wanted, got=error.got) from error
        wanted = f"{error.wanted}, which the handler of {task.definition.type} takes"
        got = "no payload: handler(cron=...) sends none, app.cron(...).run(handler, payload) sends one"
        raise PayloadError(field, wanted=wanted, got=got) from error
