"""The list of log events is complete: every event that the code logs is in it, with its fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import holdfast
from holdfast.observability.events import EVENTS, FIELDS
from holdfast.observability.redaction import Redaction

KNOWN = {event.name: event for event in EVENTS}
SOURCES = sorted(Path(holdfast.__file__).parent.rglob("*.py"))


def logged_events() -> Iterator[tuple[str, set[str]]]:
    """The events that are logged by a literal name, with their fields."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"log_event", "log_failure"}:
                name = node.args[0 if node.func.id == "log_failure" else 1]
                if isinstance(name, ast.Constant):
                    yield name.value, {keyword.arg for keyword in node.keywords if keyword.arg is not None}


def test_every_event_that_the_code_logs_is_listed_with_its_fields():
    logged = list(logged_events())
    assert len(logged) > 10
    assert [(name, fields) for name, fields in logged if not fields <= set(KNOWN[name].fields)] == []


def test_no_other_code_logs_with_the_logger_of_events():
    files = {path.name for path in SOURCES if 'getLogger("holdfast.worker")' in path.read_text(encoding="utf-8")}
    assert files == {"event_log.py"}


def test_events_are_listed_once_and_every_field_is_explained():
    assert len(KNOWN) == len(EVENTS)
    assert {field for event in EVENTS for field in event.fields} == set(FIELDS)


def test_no_field_of_an_event_is_masked():
    assert [field for field in FIELDS if Redaction().is_secret(field)] == []
