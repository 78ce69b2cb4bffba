"""The output of the demo: tables of at most 80 columns in a terminal, plain text in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from rich.console import Console
from rich.markup import escape
from rich.table import Table

MAX_WIDTH = 80


class Output:
    """Prints titled sections of lines, tables and checks."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(highlight=False, quiet=quiet)
        self._console.width = min(MAX_WIDTH, self._console.width)
        self._good, self._bad = ("✓", "✗") if _can_print(self._console, "✓✗") else ("ok", "FAILED")

    def title(self, text: str, subtitle: str) -> None:
        """Print the first line."""
        self._console.print(f"[bold cyan]{text}[/]  {subtitle}\n")

    def section(self, text: str, code: str = "") -> None:
        """Print a heading and the code that the section is about."""
        self._console.print(f"\n[bold]{text}[/]  [dim]{escape(code)}[/]")

    def line(self, text: str) -> None:
        """Print one line of a section; a long path or URL is not wrapped, so that it can be copied."""
        self._console.print(f"  {escape(text)}", soft_wrap=True)

    def spinner(self, text: str) -> AbstractContextManager[object]:
        """Show a spinner inside the block if the output is a terminal."""
        return self._console.status(f"[dim]{escape(text)}[/]", spinner="dots")

    def check(self, text: str, *, holds: bool) -> None:
        """Print a statement and whether it holds."""
        mark = f"[green]{self._good}[/]" if holds else f"[bold red]{self._bad} does not hold:[/]"
        self._console.print(f"  {mark} {escape(text)}")

    def table(self, texts: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print columns of text, then columns of numbers."""
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
