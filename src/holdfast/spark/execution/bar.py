"""The progress bar of a run: two live lines in a terminal, HTML in a notebook, a log line every few seconds elsewhere.

    ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  41 %   3,210 jobs/s   6s left
    ready 17,012   in flight 640   done 12,303   dead 45   2 of 2 slots busy

Runs on the Spark driver, about twice a second. It uses no library: none is sure to be installed beside Spark.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from html import escape
from typing import Any, Protocol, TextIO

from uuid_utils import uuid7

from holdfast.clock import SECOND, monotonic
from holdfast.model import duration
from holdfast.spark.execution.progress import Progress

LOG_INTERVAL_SECONDS = 5.0
CLEAR_LINES = "\x1b[2A\r\x1b[J"  # two lines up, then erase everything below
MAX_COLUMNS = 100
MIN_BAR_COLUMNS = 8  # with less space, the bar is left out and only the numbers are shown
GREEN, RED, CYAN, GREY = "32", "31", "36", "90"  # done, dead, in flight, ready: terminal colours
HTML_COLOURS = ("#2e9e5b", "#d64545", "#2f9bb3", "#8884")  # the same four in a notebook
HTML_STYLE = "display:flex;height:.6em;width:32em;max-width:100%;border-radius:.3em;overflow:hidden;margin:.3em 0"


class Bar(Protocol):
    """Shows the progress of a run."""

    def clear(self) -> None:
        """Remove the bar, before other code prints."""

    def show(self, progress: Progress, *, final: bool = False) -> None:
        """Replace the bar. The final bar stays on the screen."""


def choose_bar(wanted: bool | None) -> Bar | None:  # noqa: FBT001 - its only parameter
    """Return the bar for this process. None chooses a bar only where it can be redrawn; True also log lines."""
    if wanted is False:
        return None
    if (display := _notebook_display()) is not None:
        return NotebookBar(display)
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return TerminalBar(sys.stderr)
    return LogLines(sys.stderr) if wanted else None


def _notebook_display() -> Any:
    """Return ``IPython.display`` if this process is the kernel of a notebook, else None."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return importlib.import_module("IPython.display") if getattr(shell, "kernel", None) is not None else None


# Texts ------------------------------------------------------------------------------------------------------


def _counts(progress: Progress, *, final: bool) -> list[str]:
    texts = [
        f"ready {progress.ready:,}",
        f"in flight {progress.inflight:,}",
        f"done {progress.done:,}",
        f"dead {progress.dead:,}",
    ]
    if progress.cancelled:
        texts.append(f"cancelled {progress.cancelled:,}")
    if not final:
        texts.append(f"{progress.busy} of {len(progress.slots)} slots busy")
    return texts


def _speed(progress: Progress, *, final: bool) -> list[str]:
    if final:
        rate = progress.ended / progress.elapsed if progress.elapsed else 0.0
        return [_percent(progress), f"{rate:,.0f} jobs/s", f"{_duration(progress.elapsed)} in all"]
    left = [] if progress.left is None else [f"{_duration(progress.left)} left"]
    return [_percent(progress), f"{progress.rate:,.0f} jobs/s", *left]


def _percent(progress: Progress) -> str:
    return f"{progress.ended * 100 // progress.total if progress.total else 100:>3} %"


def _duration(seconds: float) -> str:
    return duration.format_rounded(max(1, round(seconds)) * SECOND)


def _parts(progress: Progress) -> tuple[int, int, int, int]:
    """Return the four parts of the bar: done, ended in another way, in flight, ready."""
    return progress.done, progress.dead + progress.cancelled, progress.inflight, progress.ready


# Bars -------------------------------------------------------------------------------------------------------


class TerminalBar:
    """Two lines below everything that was printed. Between two calls of ``show`` the cursor is below both lines."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._has_colours = "NO_COLOR" not in os.environ
        self._signs = "━━━━" if self._has_colours else "━━─ "
        try:
            self._signs.encode(out.encoding or "ascii")
        except UnicodeEncodeError:
            self._signs = "##-."
        self._is_drawn = False

    def clear(self) -> None:
        """Erase both lines."""
        if self._is_drawn:
            self._out.write(CLEAR_LINES)
            self._out.flush()
        self._is_drawn = False

    def show(self, progress: Progress, *, final: bool = False) -> None:
        """Draw both lines, with one write so that the bar does not flicker."""
        width = min(MAX_COLUMNS, self._columns()) - 1  # a line that fills the last column wraps in some terminals
        speed = "   ".join(_speed(progress, final=final))[: width - 2]
        counts = "   ".join(_counts(progress, final=final))[: width - 2]
        columns = width - len(speed) - 4
        bar = f"{self._bar(progress, columns)}  " if columns >= MIN_BAR_COLUMNS else ""
        self._out.write(f"{CLEAR_LINES if self._is_drawn else ''}  {bar}{speed}\n  {counts}\n")
        self._out.flush()
        self._is_drawn = not final

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._out.fileno()).columns or 80
        except OSError:
            return 80

    def _bar(self, progress: Progress, columns: int) -> str:
        cells = _cells(progress, columns)
        if not self._has_colours:
            return "".join(sign * count for sign, count in zip(self._signs, cells, strict=True))
        parts = zip(self._signs, cells, (GREEN, RED, CYAN, GREY), strict=True)
        return "".join(f"\x1b[{colour}m{sign * count}" for sign, count, colour in parts if count) + "\x1b[0m"


def _cells(progress: Progress, columns: int) -> list[int]:
    """Return the columns of each part, in proportion, and at least one for a part that is not empty."""
    parts, total = _parts(progress), max(1, progress.total)
    cells = [max(1, columns * part // total) if part else 0 for part in parts]
    cells[cells.index(max(cells))] += columns - sum(cells)
    return cells


class NotebookBar:
    """One output of a notebook cell, replaced by every call of ``show``."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._id = f"holdfast-{uuid7()}"
        self._is_shown = False

    def clear(self) -> None:
        """Do nothing: printed text has its own output."""

    def show(self, progress: Progress, *, final: bool = False) -> None:
        """Show HTML, with plain text for a frontend that shows no HTML."""
        show = self._display.update_display if self._is_shown else self._display.display
        texts = [*_counts(progress, final=final), *_speed(progress, final=final)]
        bundle = {"text/html": _html(progress, texts), "text/plain": "   ".join(texts)}
        show(bundle, raw=True, display_id=self._id)
        self._is_shown = True


def _html(progress: Progress, texts: Sequence[str]) -> str:
    parts = "".join(
        f'<i style="flex:{part} 0 0;background:{colour}"></i>'
        for part, colour in zip(_parts(progress), HTML_COLOURS, strict=True)
    )
    return f'<div style="{HTML_STYLE}">{parts}</div><small>{escape(" · ".join(text.strip() for text in texts))}</small>'


class LogLines:
    """One line every few seconds, for logs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._next_at = monotonic() + LOG_INTERVAL_SECONDS

    def clear(self) -> None:
        """Do nothing: log lines stay."""

    def show(self, progress: Progress, *, final: bool = False) -> None:
        """Write a line, if the last one is old enough or this is the final one."""
        if final or monotonic() >= self._next_at:
            self._next_at = monotonic() + LOG_INTERVAL_SECONDS
            self._out.write("  ".join([*_speed(progress, final=final), *_counts(progress, final=final)]) + "\n")
            self._out.flush()
