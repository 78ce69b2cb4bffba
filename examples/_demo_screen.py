"""What the demo shows: calm in a terminal of 80 columns or less, plain where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from rich.console import Console
from rich.markup import escape
from rich.table import Table

WIDTH = 80


class Screen:
    """Sections one below the other."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(highlight=False, quiet=quiet)
        self._console.width = min(WIDTH, self._console.width)
        self._good, self._bad = ("✓", "✗") if _can_print(self._console, "✓✗") else ("ok", "FAILED")

    def title(self, text: str, about: str) -> None:
        """The first line."""
        self._console.print(f"[bold cyan]{text}[/]  {about}\n")

    def section(self, text: str, about: str = "") -> None:
        """A heading."""
        self._console.print(f"\n[bold]{text}[/]  [dim]{escape(about)}[/]")

    def line(self, text: str) -> None:
        """One line of a section; longer than the screen only if it is one word, which can be copied then."""
        self._console.print(f"  {escape(text)}", soft_wrap=True)

    def waiting(self, text: str) -> AbstractContextManager[object]:
        """Something that moves while a step takes its time; where nothing can move, nothing."""
        return self._console.status(f"[dim]{escape(text)}[/]", spinner="dots")

    def claim(self, text: str, *, holds: bool) -> None:
        """What should be so, and whether it is."""
        mark = f"[green]{self._good}[/]" if holds else f"[bold red]{self._bad} not so:[/]"
        self._console.print(f"  {mark} {escape(text)}")

    def table(self, texts: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Columns of texts, then columns of numbers."""
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for place, heading in enumerate(texts):
            table.add_column(heading if place else f"  {heading}", overflow="fold")
        for heading in numbers:
            table.add_column(heading, justify="right", no_wrap=True)
        for first, *others in rows:
            cells = [f"{cell:,}" if isinstance(cell, int) else escape(str(cell)) for cell in others]
            table.add_row(f"  {escape(str(first))}", *cells)
        self._console.print(table)


def _can_print(console: Console, text: str) -> bool:
    try:
        text.encode(console.encoding)
    except UnicodeEncodeError:
        return False
    return True
