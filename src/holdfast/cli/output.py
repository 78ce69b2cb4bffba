"""What is printed: calm tables in a terminal, plain columns in a pipe, JSON for programs, bars on stderr."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from typing import TYPE_CHECKING, Protocol

from holdfast.clock import SECOND, SystemClock, to_datetime
from holdfast.model import duration

if TYPE_CHECKING:
    from rich.console import Console

NARROWEST = 6  # characters that a column is cut down to at the least
GAP = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A heading and how its cells are set; in a narrow terminal only a ``cut`` or ``wrap`` column gets narrower."""

    title: str
    right: bool = False
    cut: bool = False  # what does not fit is left out
    wrap: bool = False  # what does not fit goes on in the next line


class Step(Protocol):
    """Moves a bar to a place."""

    def __call__(self, done: int, total: int | None = None) -> None:
        """``done`` of ``total``; no total is an end that nobody knows."""


def _no_bar(done: int, total: int | None = None) -> None:
    """Where nothing could move."""


class Screen:
    """Where a command's answers go. rich is imported only where there is a terminal to draw on."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):  # a terminal that cannot show a character gets its escape
                stream.reconfigure(errors="backslashreplace")

    # For programs -----------------------------------------------------------------------------------------------

    def document(self, value: object) -> None:
        """One JSON document."""
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=_ascii()) + "\n")

    def document_line(self, value: object) -> None:
        """One of many JSON documents, on a line of its own, at once."""
        sys.stdout.write(json.dumps(value, ensure_ascii=_ascii()) + "\n")
        sys.stdout.flush()

    # For people -------------------------------------------------------------------------------------------------

    def line(self, text: str = "") -> None:
        """One line of the answer."""
        sys.stdout.write(f"{text}\n")

    def note(self, text: str) -> None:
        """One line beside the answer, for people: on stderr, so that pipes stay clean."""
        sys.stderr.write(f"{text}\n")

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
        """Columns under headings; in a terminal they fit its width, in a pipe they are as long as they are."""
        cells = [[visible(str(cell)) for cell in row] for row in rows]
        if not sys.stdout.isatty():
            self._plain(columns, cells)
            return
        from rich.table import Table  # noqa: PLC0415 - slow to import

        console = _console()
        widths = _fitted(columns, cells, console.width)
        table = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="bold")
        for column, width in zip(columns, widths, strict=True):
            table.add_column(
                column.title,
                width=width,
                no_wrap=not column.wrap,
                overflow="fold" if column.wrap else "ellipsis",
                justify="right" if column.right else "left",
            )
        for row in cells:
            table.add_row(*row)
        console.print(table, markup=False)

    @staticmethod
    def _plain(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
        lines = [[column.title for column in columns], *cells]
        widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
        for line in lines:
            set_cells = (
                cell.rjust(width) if column.right else cell.ljust(width)
                for cell, width, column in zip(line, widths, columns, strict=True)
            )
            sys.stdout.write(GAP.join(set_cells).rstrip() + "\n")

    def fields(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Names and values below one another; texts of several lines are indented under their name."""
        known = [(name, str(value)) for name, value in pairs if value is not None and str(value) != ""]
        width = max((len(name) for name, _ in known), default=0)
        for name, value in known:
            first, *more = [visible(line) for line in value.splitlines()] or [""]
            if more:
                sys.stdout.write(f"{name}\n" + "".join(f"  {line}\n" for line in (first, *more)))
            else:
                sys.stdout.write(f"{name:<{width}}{GAP}{first}\n")

    def confirmed(self, question: str) -> bool:
        """A yes from whoever runs the command; no answer is a no."""
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer.endswith("\n"):
            sys.stderr.write("\n")
        return answer.strip().lower() in {"y", "yes"}

    @contextmanager
    def bar(self, title: str, total: int | None, *, shown: bool = True) -> Iterator[Step]:
        """A bar on stderr while something takes long; nothing at all where it could not move.

        Answers are printed before or after it, never meanwhile: they would land in the middle of its line.
        """
        if not shown or not sys.stderr.isatty():
            yield _no_bar
            return
        from rich.console import Console  # noqa: PLC0415 - slow to import
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(visible(title), total=total)

            def step(done: int, total: int | None = None) -> None:
                progress.update(task, completed=done, total=total)

            yield step

    # Times ------------------------------------------------------------------------------------------------------

    def now(self) -> int:
        """This host's clock: for ages and waits that are shown, never for what a store decides."""
        return self._clock.now()

    def ago(self, instant: int | None) -> str:
        """How long ago, or in how long, in one short word."""
        if instant is None:
            return ""
        length = self.now() - instant
        return _seconds(length) if length >= 0 else f"in {_seconds(-length)}"

    def instant(self, instant: int | None) -> str | None:
        """An instant with its age: ``2026-11-15 20:58:25Z (3m20s ago)``."""
        if instant is None:
            return None
        shown = to_datetime(instant).strftime("%Y-%m-%d %H:%M:%SZ")
        length = self.now() - instant
        return f"{shown} ({self.ago(instant)}{' ago' if length >= 0 else ''})"


def _ascii() -> bool:
    """Whether JSON has to write other characters as escapes of its own."""
    return "utf" not in (sys.stdout.encoding or "").lower()


def _seconds(length: int) -> str:
    """To the second: what people are shown has aged by more before it is read."""
    return duration.format_rounded(length // SECOND * SECOND)


def visible(text: str) -> str:
    """A text on one line that cannot move the cursor or change colours: jobs bring texts that nobody has checked."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        " " if character in "\n\t" else _escaped(character) if _moves(character) else character for character in text
    )


def _moves(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _console() -> Console:
    from rich.console import Console  # noqa: PLC0415 - slow to import

    return Console(highlight=False)


def _fitted(columns: Sequence[Column], cells: Sequence[Sequence[str]], room: int) -> list[int]:
    """Column widths that fit: the widest of those that may be narrower gives up a character until all is well."""
    from rich.cells import cell_len  # noqa: PLC0415 - slow to import

    widths = [
        max(cell_len(column.title), *(cell_len(row[place]) for row in cells), 1) for place, column in enumerate(columns)
    ]
    over = sum(widths) + len(GAP) * len(columns) - room
    while over > 0:
        cut = [
            place for place, column in enumerate(columns) if (column.cut or column.wrap) and widths[place] > NARROWEST
        ]
        if not cut:
            break
        widths[max(cut, key=lambda place: widths[place])] -= 1
        over -= 1
    return widths
