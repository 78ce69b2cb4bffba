"""The list of log events is complete: every event that the code logs is in it, with its fields."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import holdfast
from holdfast.log import events
from holdfast.log.events import EVENTS, FIELDS, Event
from holdfast.observability.redaction import Redaction

KNOWN = {event.name: event for event in EVENTS}
SOURCES = sorted(Path(holdfast.__file__).parent.rglob("*.py"))


def logged_events() -> Iterator[tuple[Event, set[str | None]]]:
    """The events that are logged by their names, with their fields; None stands for more fields."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            function = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if function in {"log_event", "log_failure", "FailureLog"}:
                more = {"reason", "failures"} if function == "FailureLog" else set()
                module, _, name = ast.unparse(node.args[0]).partition(".")
                if module == "events":
                    yield getattr(events, name), {keyword.arg for keyword in node.keywords} | more


def test_every_event_is_logged_with_the_fields_that_are_listed():
    fields = defaultdict(set)
    for event, given in logged_events():
        fields[event.name] |= given
    assert len(fields) > 10
    assert [name for name in fields if not fields[name] - {None} <= set(KNOWN[name].fields)] == []
    assert [name for name in fields if None not in fields[name] and fields[name] != set(KNOWN[name].fields)] == []


def test_every_event_is_named_somewhere():
    code = "".join(path.read_text(encoding="utf-8") for path in SOURCES if path.name != "events.py")
    names = {name for name, value in vars(events).items() if isinstance(value, Event)}
    assert [name for name in names if f"events.{name}" not in code] == []


def test_no_other_code_logs_with_the_loggers_of_events():
    loggers = {event.logger for event in EVENTS}
    files = {path.name for path in SOURCES for one in loggers if f'"{one}"' in path.read_text(encoding="utf-8")}
    assert files == {"events.py"}


def test_events_are_listed_once_and_every_field_is_explained():
    assert len(KNOWN) == len(EVENTS)
    assert {field for event in EVENTS for field in event.fields} == set(FIELDS)


def test_no_field_of_an_event_is_masked():
    assert [field for field in FIELDS if Redaction().is_secret(field)] == []
