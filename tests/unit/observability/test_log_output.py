"""Where the log of the command goes, and when the program's own configuration stays."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import threading
from contextlib import contextmanager

import pytest

from holdfast.observability.log_output import LineHandler, configure_logging
from holdfast.settings import read


@contextmanager
def bare_root():
    """The root logger without the handlers of pytest, which pytest adds before each test."""
    root = logging.getLogger()
    before = root.handlers, root.level
    root.handlers = []
    try:
        yield root
    finally:
        root.handlers, _ = before
        root.setLevel(before[1])
        logging.captureWarnings(False)


def settings(folder, **given):
    return read(given, folder=folder, environ={})


def test_without_a_configuration_of_the_program_the_command_logs_to_stderr(tmp_path):
    stream = io.StringIO()
    with bare_root():
        configure_logging(settings(tmp_path, log="json", log_level="warning"), stream=stream)
        logging.getLogger("shop").info("hidden")
        logging.getLogger("shop").warning("shown", extra={"iban": "DE89"})
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["shown"]


def test_names_of_the_settings_are_masked(tmp_path):
    stream = io.StringIO()
    with bare_root():
        configure_logging(settings(tmp_path, log_redact="iban, tax_id"), stream=stream)
        logging.getLogger("shop").warning("paid", extra={"iban": "DE89"})
    assert stream.getvalue().endswith("paid            iban=***\n")


def test_the_handlers_of_the_program_stay_unless_a_format_is_chosen(tmp_path):
    with bare_root() as root:
        root.addHandler(terminal := logging.StreamHandler(sys.stderr))
        root.addHandler(other := logging.NullHandler())
        configure_logging(settings(tmp_path))
        assert root.handlers == [terminal, other]
        configure_logging(settings(tmp_path, log_level="error"))
        assert (root.handlers, root.level) == ([terminal, other], logging.ERROR)
        configure_logging(settings(tmp_path, log="json"))
        first, second = root.handlers
        assert first is other
        assert isinstance(second, LineHandler)


def test_a_long_line_is_written_whole_and_a_closed_pipe_does_no_harm():
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as stream:
        handler = LineHandler(stream)
        received = bytearray()

        def receive():
            while data := os.read(read_end, 1 << 16):
                received.extend(data)
                if data.endswith(b"\n"):
                    return

        reader = threading.Thread(target=receive)
        reader.start()
        handler.emit(logging.makeLogRecord({"msg": "x" * 300_000}))
        reader.join(60)
        assert received == b"x" * 300_000 + b"\n"
        os.close(read_end)
        handler.emit(logging.makeLogRecord({"msg": "nobody reads this"}))


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_are_for_terminals_that_want_them(tmp_path, monkeypatch, variables, coloured):
    for name, value in {"NO_COLOR": "", "TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    terminal, other_end = os.openpty()
    with os.fdopen(other_end, "w") as stream, bare_root():
        configure_logging(settings(tmp_path), stream=stream)
        logging.getLogger("shop").warning("shown")
        assert (b"\x1b[" in os.read(terminal, 4096)) is coloured
    os.close(terminal)
