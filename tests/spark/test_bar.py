"""The progress bar in a terminal, in a notebook and in a log."""

import fcntl
import io
import os
import pty
import select
import struct
import sys
import termios
import types
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace

import pytest

from holdfast.spark.execution.bar import LogLines, NotebookBar, TerminalBar, choose_bar
from holdfast.spark.execution.progress import Progress
from holdfast.spark.execution.run_spec import SlotStatus

HALF = Progress(
    ready=600,
    inflight=100,
    done=1250,
    dead=50,
    rate=350.0,
    slots=(SlotStatus({}, held=100), SlotStatus({})),
    settled=Counter(),
    elapsed=4.0,
    left=2.0,
)
END = Progress(
    ready=0, inflight=0, done=1950, dead=50, rate=350.0, slots=(SlotStatus({}),), settled=Counter(), elapsed=8.0
)


@contextmanager
def terminal(columns=80):
    """A stream that is a terminal, and a function that returns what was written to it."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(master, "rb", buffering=0) as ours, os.fdopen(slave, "w", encoding="utf-8") as theirs:

        def written():
            text = ours.read(65536)
            while select.select([ours], [], [], 0.1)[0]:  # a terminal may return the text in parts
                text += ours.read(65536)
            return text.decode().replace("\r\n", "\n")

        yield theirs, written


def visible(text):
    """Return the text without colours."""
    for colour in ("32", "31", "36", "90", "0"):
        text = text.replace(f"\x1b[{colour}m", "")
    return text


def test_a_terminal_shows_two_lines_that_are_replaced():
    with terminal() as (out, written):
        bar = TerminalBar(out)
        bar.show(HALF)
        first, second = visible(written()).splitlines()
        assert first.endswith(" 65 %   350 jobs/s   2s left")
        assert first.count("━") == 80 - 1 - 4 - len(" 65 %   350 jobs/s   2s left")
        assert second == "  ready 600   in flight 100   done 1,250   dead 50   1 of 2 slots busy"
        bar.show(END, final=True)
        assert visible(written()).startswith("\x1b[2A\r\x1b[J  ━━━")
        bar.clear()
        out.write("behind it\n")
        out.flush()
        assert written() == "behind it\n"


@pytest.mark.parametrize("columns", [20, 40, 79, 81, 300])
def test_no_line_is_wider_than_the_terminal(columns):
    with terminal(columns) as (out, written):
        TerminalBar(out).show(HALF)
        assert all(len(line) < columns for line in visible(written()).splitlines())


def test_without_colours_the_signs_differ(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    with terminal() as (out, written):
        TerminalBar(out).show(HALF)
        text = written()
        assert "━─" in text
        assert "─ " in text
        assert "\x1b" not in text


def test_a_log_gets_a_final_line_and_few_lines_before_it():
    out = io.StringIO()
    lines = LogLines(out)
    lines.show(HALF)
    lines.show(END, final=True)
    assert out.getvalue() == ("100 %  250 jobs/s  8s in all  ready 0  in flight 0  done 1,950  dead 50\n")


def test_by_default_no_bar_is_shown_where_it_cannot_be_redrawn(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert choose_bar(None) is None
    assert isinstance(choose_bar(True), LogLines)
    with terminal() as (out, _):
        monkeypatch.setattr(sys, "stderr", out)
        assert isinstance(choose_bar(None), TerminalBar)
        assert choose_bar(False) is None
        monkeypatch.setenv("TERM", "dumb")
        assert choose_bar(None) is None


def test_a_notebook_gets_one_output_that_is_updated(monkeypatch):
    shown = []
    display = types.ModuleType("IPython.display")
    display.display = lambda bundle, **how: shown.append(("display", how, bundle))
    display.update_display = lambda bundle, **how: shown.append(("update", how, bundle))
    ipython = types.ModuleType("IPython")
    ipython.display = display
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    bar = choose_bar(None)
    assert isinstance(bar, NotebookBar)
    bar.show(HALF)
    bar.show(END, final=True)
    assert [kind for kind, _, _ in shown] == ["display", "update"]
    assert shown[0][1] == shown[1][1]
    assert shown[0][1].keys() == {"raw", "display_id"}
    assert "done 1,250" in shown[0][2]["text/html"]
    assert "8s in all" in shown[1][2]["text/plain"]
    ipython.get_ipython = types.SimpleNamespace  # IPython in a terminal
    assert not isinstance(choose_bar(None), NotebookBar)


def test_cancelled_jobs_are_shown_apart_from_dead_ones():
    out = io.StringIO()
    LogLines(out).show(replace(END, dead=40, cancelled=10), final=True)
    assert out.getvalue().endswith("done 1,950  dead 40  cancelled 10\n")
