"""What the demo shows: calm in a terminal of 80 columns, line by line where there is none."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from _demo_certificate import Claim
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

WIDTH = 80
LINE_EVERY = 1.0  # seconds between two lines of progress where nothing can be redrawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Where the jobs stand."""

    total: int
    ready: int = 0
    inflight: int = 0
    done: int = 0
    dead: int = 0
    retried: int = 0
    expired: int = 0

    @property
    def ended(self) -> int:
        """Jobs that need no more work."""
        return self.done + self.dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What became of the jobs of one type."""

    type: str
    about: str
    jobs: int
    runs: int
    done: int
    dead: int
    waited: float  # seconds, the median


class Screen:
    """Sections one after the other; during ``work`` a part of it moves."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(highlight=False, quiet=quiet)
        self._console.width = min(WIDTH, self._console.width)
        self._moves = self._console.is_terminal and not quiet
        self._mark, self._cross = ("✓", "✗") if _can_print(self._console, "✓✗") else ("ok", "FAILED")
        self._live: Live | None = None
        self._working = False
        self._events: list[Table] = []
        self._ends: deque[tuple[float, int]] = deque()  # (when, jobs ended by then), for the rate
        self._began = self._line_at = 0.0

    def title(self, text: str, about: str) -> None:
        """The first line."""
        self._console.print(f"[bold cyan]{text}[/]  {about}")

    def section(self, text: str, about: str = "") -> None:
        """A heading."""
        self._console.print(f"\n[bold]{text}[/]  [dim]{about}[/]")

    def line(self, text: str) -> None:
        """One line of a section; may hold markup."""
        self._console.print(f"  {text}", soft_wrap=True)

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """The moving part; it stays as it was at the end of the block."""
        self._began = time.monotonic()
        self._working = True
        with contextlib.ExitStack() as stack:
            if self._moves:
                self._live = stack.enter_context(Live(console=self._console, auto_refresh=False))
            yield
        self._working = False

    def event(self, text: str, error: str = "") -> None:
        """Something happened to a worker; an error is shown as it is."""
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_column(width=7, justify="right", style="cyan")
        line.add_column()
        at = f"{time.monotonic() - self._began:.1f} s"
        line.add_row(at, text)
        if error:
            line.add_row("", f"[yellow]{escape(error)}[/]")
        self._events.append(line)
        if not self._moves:
            self._console.print(
                f"  {at:>5}  {text}", *([f"         {escape(error)}"] if error else []), sep="\n", soft_wrap=True
            )

    def show(self, counts: Counts, *, last: bool = False) -> None:
        """Redraw the bar and the counts, or print them now and then; outside ``work``, leave them as they are."""
        if not self._working:
            return
        rate = self._rate(counts.ended, whole=last)
        if self._live is not None:
            self._live.update(Group(_bar(counts, rate), _tally(counts), *self._events), refresh=True)
        elif last or time.monotonic() - self._line_at > LINE_EVERY:
            self._line_at = time.monotonic()
            self._console.print(f"  {counts.ended / counts.total:4.0%}", _tally(counts), soft_wrap=True)
            if last:
                self._console.print(f"        {rate:,.0f} jobs per second")

    def kinds(self, kinds: Iterable[Kind]) -> None:
        """One row for each type."""
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        table.add_column("  type")
        table.add_column("")
        for heading in ("jobs", "runs", "done", "dead", "wait"):
            table.add_column(heading, justify="right")
        for kind in kinds:
            dead = f"[yellow]{kind.dead:,}[/]" if kind.dead else "0"
            numbers = (f"{kind.jobs:,}", f"{kind.runs:,}", f"{kind.done:,}", dead, f"{kind.waited:.2f} s")
            table.add_row(f"  {kind.type}", f"[dim]{kind.about}[/]", *numbers)
        self._console.print(table)

    def certificate(self, claims: Sequence[Claim]) -> None:
        """One line for each claim; a broken one with what speaks against it."""
        for claim in claims:
            if claim.holds:
                self.line(f"[green]{self._mark}[/] {claim.text}")
            else:
                self.line(f"[bold red]{self._cross} {claim.text}[/]")
                for violation in claim.violations[:3]:
                    self.line(f"    {escape(violation)}")
                if len(claim.violations) > 3:
                    self.line(f"    and {len(claim.violations) - 3:,} more")

    def _rate(self, ended: int, *, whole: bool) -> float:
        """Jobs per second over the last second, or over the whole time."""
        now = time.monotonic()
        self._ends.append((now, ended))
        while len(self._ends) > 2 and self._ends[0][0] < now - 1:
            self._ends.popleft()
        since, before = (self._began, 0) if whole else self._ends[0]
        return (ended - before) / max(0.05, now - since)


def _bar(counts: Counts, rate: float) -> Table:
    row = Table.grid(padding=(0, 2, 0, 0))
    bar = ProgressBar(
        total=counts.total, completed=counts.ended, width=36, complete_style="cyan", finished_style="green"
    )
    numbers = f"{counts.ended:>6,} of {counts.total:,}"
    row.add_row("", bar, numbers, f"[dim]{rate:>7,.0f} per second[/]")
    return row


def _tally(counts: Counts) -> Text:
    words = {
        "ready": counts.ready,
        "in flight": counts.inflight,
        "done": counts.done,
        "dead": counts.dead,
        "retried": counts.retried,
        "expired": counts.expired,
    }
    return Text.from_markup("  " + "  ".join(f"[dim]{word}[/] {number:,}" for word, number in words.items()))


def _can_print(console: Console, text: str) -> bool:
    try:
        text.encode(console.encoding)
    except UnicodeEncodeError:
        return False
    return True
