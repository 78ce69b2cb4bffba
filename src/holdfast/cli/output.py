"""Everything a command prints: tables in a terminal, plain columns in a pipe, JSON for programs, progress on stderr."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from typing import TYPE_CHECKING, Protocol

from holdfast.clock import SECOND, SystemClock, to_datetime
from holdfast.model import duration
from holdfast.model.control_characters import escape_control_characters, escape_json

if TYPE_CHECKING:
    from rich.console import Console

MIN_COLUMN_CHARACTERS = 6  # a column that may shrink never becomes narrower
GAP = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A heading and the layout of its cells; in a narrow terminal only ``truncate`` and ``wrap`` columns shrink."""

    title: str
    align_right: bool = False
    truncate: bool = False
    wrap: bool = False


class ProgressUpdate(Protocol):
    """Sets the position of a progress bar."""

    def __call__(self, done: int, total: int | None = None) -> None:
        """Show ``done`` of ``total``; None means that the total is unknown."""


def _no_progress(done: int, total: int | None = None) -> None:
    """The update of a bar that is not shown."""


class Output:
    """The output of one command. rich is imported only when a terminal needs it."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.formatter: logging.Formatter | None = None  # of notes and failures beside a JSON log; None: plain text
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                # A character that the terminal cannot show becomes an escape. Python buffers a pipe in blocks: the
                # reader of a command that prints and goes on would wait for its first line.
                stream.reconfigure(errors="backslashreplace", line_buffering=True)

    # For programs -----------------------------------------------------------------------------------------------

    def print_json(self, value: object) -> None:
        """Print one indented JSON document."""
        sys.stdout.write(_to_json(value, indent=2) + "\n")

    def print_json_line(self, value: object) -> None:
        """Print one of many JSON documents on its own line."""
        sys.stdout.write(_to_json(value) + "\n")

    # For people -------------------------------------------------------------------------------------------------

    def print_line(self, text: str = "") -> None:
        """Print one line of the result."""
        sys.stdout.write(f"{text}\n")

    def print_note(self, text: str) -> None:
        """Print one line that is not part of the result: on stderr, so that a pipe gets the result only."""
        sys.stderr.write(self.format_note(text) + "\n")

    def format_note(self, text: str, *, level: int = logging.WARNING, error: BaseException | None = None) -> str:
        """Return a note as one line: of the log, if that is JSON, so that a reader of the log finds no other lines."""
        if self.formatter is None:
            return text
        shown = None if error is None else (type(error), error, error.__traceback__)
        return self.formatter.format(logging.LogRecord("holdfast", level, "", 0, text, None, shown))

    def print_table(self, columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
        """Print columns under headings; a terminal's width is respected, a pipe gets every cell in full."""
        cells = [[escape_control_characters(str(cell)) for cell in row] for row in rows]
        if not sys.stdout.isatty():
            self._print_plain_table(columns, cells)
            return
        from rich.table import Table  # noqa: PLC0415 - slow to import

        console = _console()
        widths = _fit_widths(columns, cells, console.width)
        table = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="bold")
        for column, width in zip(columns, widths, strict=True):
            table.add_column(
                column.title,
                width=width,
                no_wrap=not column.wrap,
                overflow="fold" if column.wrap else "ellipsis",
                justify="right" if column.align_right else "left",
            )
        for row in cells:
            table.add_row(*row)
        # A row that is too long is continued on the next line: an id that is cut off cannot be copied.
        console.width = max(console.width, sum(widths) + len(GAP) * len(columns))
        console.print(table, markup=False)

    @staticmethod
    def _print_plain_table(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
        lines = [[column.title for column in columns], *cells]
        widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
        for line in lines:
            padded = (
                cell.rjust(width) if column.align_right else cell.ljust(width)
                for cell, width, column in zip(line, widths, columns, strict=True)
            )
            sys.stdout.write(GAP.join(padded).rstrip() + "\n")

    def print_fields(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Print one name and value per line, without empty values; text of several lines is indented."""
        present = [(name, str(value)) for name, value in pairs if value is not None and str(value) != ""]
        width = max((len(name) for name, _ in present), default=0)
        for name, value in present:
            first, *more = [escape_control_characters(line) for line in value.splitlines()] or [""]
            if more:
                sys.stdout.write(f"{name}\n" + "".join(f"  {line}\n" for line in (first, *more)))
            else:
                sys.stdout.write(f"{name:<{width}}{GAP}{first}\n")

    def confirm(self, question: str) -> bool:
        """Ask the user; anything other than yes is a no."""
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer.endswith("\n"):
            sys.stderr.write("\n")
        return answer.strip().lower() in {"y", "yes"}

    @contextmanager
    def progress_bar(self, title: str, total: int | None, *, shown: bool = True) -> Iterator[ProgressUpdate]:
        """Show a progress bar on stderr inside the block, if stderr is a terminal.

        Print results before or after the block: inside, they would break the line of the bar.
        """
        if not shown or not sys.stderr.isatty():
            yield _no_progress
            return
        from rich.console import Console  # noqa: PLC0415 - slow to import
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(escape_control_characters(title), total=total)

            def update(done: int, total: int | None = None) -> None:
                progress.update(task, completed=done, total=total)

            yield update

    # Times ------------------------------------------------------------------------------------------------------

    def now(self) -> int:
        """The clock of this host: for ages and waits that are shown, never for decisions about leases."""
        return self._clock.now()

    def age(self, instant: int | None) -> str:
        """The time since an instant, or until it."""
        if instant is None:
            return ""
        age = self.now() - instant
        return _whole_seconds(age) if age >= 0 else f"in {_whole_seconds(-age)}"

    def instant(self, instant: int | None) -> str | None:
        """An instant with its age: ``2026-11-15 20:58:25Z (3m20s ago)``."""
        if instant is None:
            return None
        text = to_datetime(instant).strftime("%Y-%m-%d %H:%M:%SZ")
        is_past = self.now() >= instant
        return f"{text} ({self.age(instant)}{' ago' if is_past else ''})"


def _to_json(value: object, *, indent: int | None = None) -> str:
    return escape_json(json.dumps(value, indent=indent, ensure_ascii=_needs_ascii()))


def _needs_ascii() -> bool:
    return "utf" not in (sys.stdout.encoding or "").lower()


def _whole_seconds(length: int) -> str:
    return duration.format_rounded(length // SECOND * SECOND)


def _console() -> Console:
    from rich.console import Console  # noqa: PLC0415 - slow to import

    return Console(highlight=False)


def _fit_widths(columns: Sequence[Column], cells: Sequence[Sequence[str]], available: int) -> list[int]:
    """Column widths that fit the terminal: the widest column that may shrink loses characters until the row fits."""
    from rich.cells import cell_len  # noqa: PLC0415 - slow to import

    widths = [
        max(cell_len(column.title), *(cell_len(row[place]) for row in cells), 1) for place, column in enumerate(columns)
    ]
    excess = sum(widths) + len(GAP) * len(columns) - available
    while excess > 0:
        shrinkable = [
            place
            for place, column in enumerate(columns)
            if (column.truncate or column.wrap) and widths[place] > MIN_COLUMN_CHARACTERS
        ]
        if not shrinkable:
            break
        widths[max(shrinkable, key=lambda place: widths[place])] -= 1
        excess -= 1
    return widths
