"""The live bar of a run: two lines that move in a terminal, a picture in a notebook, a line now and then elsewhere.

    ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  41 %   3,210 jobs/s   6s left
    ready 17,012   in flight 640   done 12,303   dead 45   2 of 2 slots busy

Drawn by hand: a Spark driver has no library for it that could be counted on.
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

LINE_EVERY = 5.0  # seconds between two lines where nothing can be redrawn
AWAY = "\x1b[2A\r\x1b[J"  # two lines up, and nothing below
WIDEST = 100  # columns of both lines
NARROWEST = 8  # columns of the bar itself; where there is less room, numbers must do
GREEN, RED, CYAN, GREY = "32", "31", "36", "90"  # done, dead, in flight, ready; colours of terminals
PAINT = ("#2e9e5b", "#d64545", "#2f9bb3", "#8884")  # the same on a page
BAR = "display:flex;height:.6em;width:32em;max-width:100%;border-radius:.3em;overflow:hidden;margin:.3em 0"


class Bar(Protocol):
    """Something that shows how a run stands."""

    def wipe(self) -> None:
        """Make room: somebody wants to print."""

    def show(self, progress: Progress, *, last: bool = False) -> None:
        """Show this, in place of what was shown before; the last one stays."""


def bar_of(wanted: bool | None) -> Bar | None:  # noqa: FBT001 - the one thing it is about
    """What suits the place where this runs. None as the wish: only if it can move there."""
    if wanted is False:
        return None
    if (display := _notebook()) is not None:
        return NotebookBar(display)
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return TerminalBar(sys.stderr)
    return Lines(sys.stderr) if wanted else None


def _notebook() -> Any:
    """``IPython.display``, if this process is the kernel of a notebook; then IPython is there already."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return importlib.import_module("IPython.display") if getattr(shell, "kernel", None) is not None else None


# Words ------------------------------------------------------------------------------------------------------


def _counts(progress: Progress, *, last: bool) -> list[str]:
    slots = [] if last else [f"{progress.busy} of {len(progress.slots)} slots busy"]
    return [
        f"ready {progress.ready:,}",
        f"in flight {progress.inflight:,}",
        f"done {progress.done:,}",
        f"dead {progress.dead:,}",
        *slots,
    ]


def _speed(progress: Progress, *, last: bool) -> list[str]:
    if last:
        rate = progress.ended / progress.elapsed if progress.elapsed else 0.0
        return [_share(progress), f"{rate:,.0f} jobs/s", f"{_length(progress.elapsed)} in all"]
    left = [] if progress.left is None else [f"{_length(progress.left)} left"]
    return [_share(progress), f"{progress.rate:,.0f} jobs/s", *left]


def _share(progress: Progress) -> str:
    return f"{progress.ended * 100 // progress.total if progress.total else 100:>3} %"


def _length(seconds: float) -> str:
    return duration.format_rounded(max(1, round(seconds)) * SECOND)


# Pictures ---------------------------------------------------------------------------------------------------


class TerminalBar:
    """Two lines at the end of what is printed. Between two looks the cursor stands below them."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._colours = "NO_COLOR" not in os.environ
        self._signs = "━━━━" if self._colours else "━━─ "
        try:
            self._signs.encode(out.encoding or "ascii")
        except UnicodeEncodeError:
            self._signs = "##-."
        self._drawn = False

    def wipe(self) -> None:
        """Take both lines away."""
        if self._drawn:
            self._out.write(AWAY)
            self._out.flush()
        self._drawn = False

    def show(self, progress: Progress, *, last: bool = False) -> None:
        """Draw both lines."""
        width = min(WIDEST, self._columns()) - 1  # a line that fills the last column wraps in some terminals
        speed = "   ".join(_speed(progress, last=last))[: width - 2]
        counts = "   ".join(_counts(progress, last=last))[: width - 2]
        room = width - len(speed) - 4
        bar = f"{self._bar(progress, room)}  " if room >= NARROWEST else ""
        self._out.write(f"{AWAY if self._drawn else ''}  {bar}{speed}\n  {counts}\n")  # at once: it does not flicker
        self._out.flush()
        self._drawn = not last

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._out.fileno()).columns or 80
        except OSError:
            return 80

    def _bar(self, progress: Progress, room: int) -> str:
        cells = _cells(progress, room)
        if not self._colours:
            return "".join(sign * count for sign, count in zip(self._signs, cells, strict=True))
        parts = zip(self._signs, cells, (GREEN, RED, CYAN, GREY), strict=True)
        return "".join(f"\x1b[{colour}m{sign * count}" for sign, count, colour in parts if count) + "\x1b[0m"


def _cells(progress: Progress, room: int) -> list[int]:
    """Cells for what is done, dead, in flight and ready: by their shares, but one at least for what is there."""
    numbers: Sequence[int] = (progress.done, progress.dead, progress.inflight, progress.ready)
    total = max(1, progress.total)
    cells = [max(1, room * number // total) if number else 0 for number in numbers]
    cells[cells.index(max(cells))] += room - sum(cells)
    return cells


class NotebookBar:
    """One output of a cell, which is replaced by each look."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._id = f"holdfast-{uuid7()}"
        self._shown = False

    def wipe(self) -> None:
        """Printed texts have an output of their own."""

    def show(self, progress: Progress, *, last: bool = False) -> None:
        """As a picture, and as text for whoever cannot show it."""
        show = self._display.update_display if self._shown else self._display.display
        words = [*_counts(progress, last=last), *_speed(progress, last=last)]
        bundle = {"text/html": _html(progress, words), "text/plain": "   ".join(words)}
        show(bundle, raw=True, display_id=self._id)
        self._shown = True


def _html(progress: Progress, words: Sequence[str]) -> str:
    numbers = (progress.done, progress.dead, progress.inflight, progress.ready)
    parts = "".join(f'<i style="flex:{n} 0 0;background:{paint}"></i>' for n, paint in zip(numbers, PAINT, strict=True))
    return f'<div style="{BAR}">{parts}</div><small>{escape(" · ".join(word.strip() for word in words))}</small>'


class Lines:
    """A line every few seconds, for logs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._next = monotonic() + LINE_EVERY

    def wipe(self) -> None:
        """Lines stay."""

    def show(self, progress: Progress, *, last: bool = False) -> None:
        """If it is time."""
        if last or monotonic() >= self._next:
            self._next = monotonic() + LINE_EVERY
            self._out.write("  ".join([*_speed(progress, last=last), *_counts(progress, last=last)]) + "\n")
            self._out.flush()
