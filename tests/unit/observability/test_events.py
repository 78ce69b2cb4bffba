"""The list of log events is complete: every event that the code logs is in it, with its fields."""

from __future__ import annotations

import ast
import logging
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import holdfast
from holdfast.observability.events import EVENTS, FIELDS
from holdfast.observability.redaction import Redaction

KNOWN = {event.name: event for event in EVENTS}
SOURCES = sorted(Path(holdfast.__file__).parent.rglob("*.py"))


def logged_events() -> Iterator[tuple[str, str, set[str | None]]]:
    """The events that are logged by a literal name, with their level and their fields; None stands for more fields."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            function = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if function in {"log_event", "log_failure", "FailureLog"}:
                is_failure = function != "log_event"
                name = node.args[0 if is_failure else 1]
                level = "ERROR" if is_failure else ast.unparse(node.args[0]).removeprefix("logging.")
                more = {"reason", "failures"} if function == "FailureLog" else set()
                if isinstance(name, ast.Constant):
                    yield name.value, level, {keyword.arg for keyword in node.keywords} | more


def test_every_event_that_the_code_logs_is_listed_with_its_fields():
    logged = list(logged_events())
    assert len(logged) > 10
    assert [(name, fields) for name, _, fields in logged if not fields - {None} <= set(KNOWN[name].fields)] == []


def test_every_level_and_field_that_is_listed_is_logged():
    levels, fields = defaultdict(set), defaultdict(set)
    for name, level, given in logged_events():
        levels[name].add(level)
        fields[name] |= given
    assert [name for name in levels if logging.getLevelName(KNOWN[name].level) not in levels[name]] == []
    assert [name for name in fields if None not in fields[name] and fields[name] != set(KNOWN[name].fields)] == []


def test_no_other_code_logs_with_the_logger_of_events():
    files = {path.name for path in SOURCES if 'getLogger("holdfast.worker")' in path.read_text(encoding="utf-8")}
    assert files == {"event_log.py"}


def test_events_are_listed_once_and_every_field_is_explained():
    assert len(KNOWN) == len(EVENTS)
    assert {field for event in EVENTS for field in event.fields} == set(FIELDS)


def test_no_field_of_an_event_is_masked():
    assert [field for field in FIELDS if Redaction().is_secret(field)] == []
