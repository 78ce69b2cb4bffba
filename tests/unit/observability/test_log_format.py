"""A record is one line, in a terminal and as JSON, whatever it contains."""

from __future__ import annotations

import json
import logging
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.log import events
from holdfast.log.events import WORKER_LOGGER
from holdfast.log.records import log_event
from holdfast.observability import JobFields, JsonFormatter, TerminalFormatter
from holdfast.observability.log_format import DIM
from holdfast.wire.job_message import PayloadMessage
from holdfast.worker import job_log

FORMATTERS = [JsonFormatter(), TerminalFormatter()]


def make_record(message: str = "hello", *args: object, name: str = "shop", **extra: object) -> logging.LogRecord:
    record = logging.getLogger(name).makeRecord(name, logging.INFO, "f.py", 1, message, args, None, extra=extra)
    record.created = 1_700_000_000.25
    return record


@pytest.fixture
def event_record(caplog):
    with caplog.at_level(logging.INFO, WORKER_LOGGER):
        log_event(events.JOB_DONE, type="mail.send", job_id="j1", duration=0.25, reason=None)
    return caplog.records[0]


def test_an_event_is_its_name_and_its_fields_in_every_format(event_record):
    assert event_record.getMessage() == "job.done type=mail.send job_id=j1 duration=0.25"
    assert (event_record.event, event_record.type, event_record.duration) == ("job.done", "mail.send", 0.25)
    line = json.loads(JsonFormatter().format(event_record))
    assert (line.pop("level"), line.pop("logger"), line.pop("time")[-1]) == ("info", "holdfast.worker", "Z")
    assert line == {"message": "job.done", "type": "mail.send", "job_id": "j1", "duration": 0.25}
    text = TerminalFormatter().format(event_record)
    assert text.endswith("Z info    job.done        type=mail.send job_id=j1 duration=0.25")


def test_a_record_of_the_program_keeps_its_message_and_its_extra_fields():
    record = make_record("to %s", "ada", order=17, password="hunter2", event="their own")
    line = json.loads(JsonFormatter().format(record))
    assert line == {
        "time": "2023-11-14T22:13:20.250000Z",
        "level": "info",
        "logger": "shop",
        "message": "to ada",
        "order": 17,
        "password": "***",
        "event": "their own",
    }
    assert TerminalFormatter().format(record) == (
        '2023-11-14T22:13:20.250000Z info    to ada          order=17 password=*** event="their own"'
    )


def test_colours_are_only_in_the_text_of_a_formatter_that_has_them():
    assert DIM in TerminalFormatter(colours=True).format(make_record(order=17))
    assert "\x1b" not in TerminalFormatter().format(make_record(order=17))


@given(st.text(max_size=30), st.text(max_size=30), st.text(min_size=1, max_size=10))
def test_no_text_can_forge_a_line_or_control_a_terminal(message, value, name):
    record = make_record("%s", message)
    record.__dict__[f"x {name}"] = value
    for formatter in FORMATTERS:
        line = formatter.format(record)
        assert not [one for one in line if unicodedata.category(one) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]
    assert json.loads(FORMATTERS[0].format(record))["logger"] == "shop"


@pytest.mark.parametrize("value", [float("nan"), 2**70, "\ud800", b"bytes", object, {"a": {1: 2}}, "\x9b31m", "\x7f"])
def test_every_value_is_written_as_json(value):
    line = JsonFormatter().format(make_record(value=value))
    assert "value" in json.loads(line)
    assert line.isprintable()


def test_a_traceback_is_indented_and_cannot_forge_a_line():
    record = make_record("failed")
    error = ValueError("first\n2026-11-17T09:00:00.000000Z info job.done")
    record.exc_info = (ValueError, error, None)
    first, *rest = TerminalFormatter().format(record).splitlines()
    assert first.endswith("failed")
    assert all(line.startswith("    ") for line in rest)
    assert rest[-2].strip() == "ValueError: first"
    exception = json.loads(JsonFormatter().format(record))["exception"]
    assert exception.endswith("ValueError: first\n2026-11-17T09:00:00.000000Z info job.done")


def test_records_of_a_handler_get_the_fields_of_its_job():
    message = PayloadMessage("mail.send", b"1", None, "j1", "mail", 2, 17)
    record, outside = make_record(type="mine"), make_record()
    token = job_log.current_jobs.set([message])
    try:
        assert JobFields().filter(record)
    finally:
        job_log.current_jobs.reset(token)
    assert JobFields().filter(outside)
    assert (record.job_id, record.queue, record.attempt, record.fence) == ("j1", "mail", 2, 17)
    assert record.type == "mine"  # of the call
    assert not hasattr(outside, "job_id")
