"""What the demo shows: calm in a terminal of 80 columns or less, line by line where there is none."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from _demo_certificate import Claim
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

WIDTH = 80
NARROW = 72  # columns below which comments are left out
LINE_EVERY = 1.0  # seconds between two lines of progress where nothing can be redrawn
PICTURE = 12  # columns of the throughput over time
STEPS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Where the jobs stand."""

    total: int
    waiting: int = 0
    inflight: int = 0
    done: int = 0
    dead: int = 0
    retried: int = 0
    expired: int = 0
    rates: Sequence[int] = field(default=())  # jobs ended in each slice of time so far

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    """Dead letters of one type with the same reason; the error is that of one of them."""

    type: str
    reason: str
    jobs: int
    error: str


class Screen:
    """Sections one after the other; during ``work`` a part of it moves."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(highlight=False, quiet=quiet)
        self._console.width = min(WIDTH, self._console.width)
        self._wide = self._console.width >= NARROW
        self._moves = self._console.is_terminal and not self._console.is_dumb_terminal and not quiet
        self._draws = _can_print(self._console, "✓✗━─●\N{NO-BREAK SPACE}" + STEPS)
        self._mark, self._cross = ("✓", "✗") if self._draws else ("ok", "FAILED")
        self._live: Live | None = None
        self._working = False
        self._events: list[RenderableType] = []
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
        if self._moves:
            self._console.print(_indented(text, 2))
        else:
            self._console.print(f"  {text}", soft_wrap=True)

    # Work -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """The moving part; it stays as it was at the end of the block."""
        self._began = self._line_at = time.monotonic()
        self._working = True
        with contextlib.ExitStack() as stack:
            if self._moves:
                self._live = stack.enter_context(Live(console=self._console, auto_refresh=False))
            yield
        self._working = False

    def event(self, text: str) -> None:
        """Something happened to a worker or to a job."""
        at = f"{time.monotonic() - self._began:.1f} s"
        self._events.append(_indented(text, 2, at=f"{at:>6}"))
        if not self._moves:
            self._console.print(f"  {at:>6}  {text}", soft_wrap=True)

    def show(self, counts: Counts, *, last: bool = False) -> None:
        """Redraw the bar and the counts, or print them now and then; outside ``work``, leave them as they are."""
        if not self._working:
            return
        rate = self._rate(counts.ended, whole=last)
        if self._live is not None:
            parts = [self._bar(counts, rate), self._tally(counts), *self._events]
            self._live.update(Group(*parts), refresh=True)
        elif last or time.monotonic() - self._line_at > LINE_EVERY:
            self._line_at = time.monotonic()
            share = counts.ended / counts.total
            self._console.print(f"  {share:6.0%} {rate:>7,.0f}/s ", self._tally(counts), soft_wrap=True)

    def _bar(self, counts: Counts, rate: float) -> Text:
        """Ended, in flight, waiting: as long as they are many; then numbers, and the throughput as a picture."""
        numbers = f"  {counts.ended:,} of {counts.total:,}  "
        speed = f"{rate:>6,.0f}/s"
        picture = f"  {_picture(counts.rates)}" if self._draws and self._wide else ""
        room = max(8, self._console.width - 3 - len(numbers) - len(speed) - (PICTURE + 2 if picture else 0))
        parts = _shares(room, [counts.done, counts.dead, counts.inflight, counts.waiting])
        ended, flying, free = ("━", "━" if not self._console.no_color else "─", "━") if self._draws else ("#", "-", ".")
        if self._draws and self._console.no_color:
            free = " "
        bar = Text("  ", overflow="crop", no_wrap=True)
        for cells, sign, style in zip(
            parts, (ended, ended, flying, free), ("green", "red", "cyan", "bright_black"), strict=True
        ):
            bar.append(sign * cells, style)
        return bar.append(numbers).append(speed, "bold").append(picture, "cyan")

    def _tally(self, counts: Counts) -> RenderableType:
        words = {
            "done": (counts.done, "green"),
            "dead": (counts.dead, "red"),
            "in flight": (counts.inflight, "cyan"),
            "waiting": (counts.waiting, "bright_black"),
        }
        again = f"[dim]again after[/] {counts.retried:,} failures, {counts.expired:,} lost leases"
        if not self._moves:
            plain = (f"{word} {number:,}" for word, (number, _) in words.items())
            return Text.from_markup("  ".join((*plain, again)))
        dot = "●" if self._draws else "*"
        space = "\N{NO-BREAK SPACE}" if self._draws else " "
        parts = (f"[{colour}]{dot}[/] [dim]{word}[/] {number:,}" for word, (number, colour) in words.items())
        return Group(_indented("   ".join(part.replace(" ", space) for part in parts), 2), _indented(again, 2))

    def _rate(self, ended: int, *, whole: bool) -> float:
        """Jobs per second over the last second, or over the whole time."""
        now = time.monotonic()
        self._ends.append((now, ended))
        while len(self._ends) > 2 and self._ends[0][0] < now - 1:
            self._ends.popleft()
        since, before = (self._began, 0) if whole else self._ends[0]
        return (ended - before) / max(0.05, now - since)

    # Tables -----------------------------------------------------------------------------------------------------

    def kinds(self, kinds: Iterable[Kind]) -> None:
        """One row for each type, and their sum."""
        wide = [""] if self._wide else []
        table = self._table(["type", *wide], ["jobs", "runs", "done", "dead", *(["wait"] if self._wide else [])])
        sums = [0, 0, 0, 0]
        for kind in kinds:
            numbers = (kind.jobs, kind.runs, kind.done, kind.dead)
            sums = [sum(pair) for pair in zip(sums, numbers, strict=True)]
            about, waited = ([f"[dim]{kind.about}[/]"], [f"{kind.waited:.2f} s"]) if self._wide else ([], [])
            table.add_row(f"  {kind.type}", *about, *_numbers(numbers), *waited)
        table.add_row("  [bold]all[/]", *wide, *(f"[bold]{number}[/]" for number in _numbers(sums)), *wide)
        self._console.print(table)

    def letters(self, letters: Iterable[Letters]) -> None:
        """One row for each reason."""
        table = self._table(["type", "reason", "last error"], ["jobs"])
        for column in table.columns[1:3]:
            column.no_wrap, column.overflow = False, "fold"
        for one in letters:
            error = escape(_short(one.error).removesuffix(f": {one.reason}"))
            table.add_row(f"  {one.type}", f"[red]{escape(one.reason)}[/]", error, f"{one.jobs:,}")
        self._console.print(table)

    def _table(self, texts: Sequence[str], numbers: Sequence[str]) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for place, heading in enumerate(texts):
            table.add_column(heading if place else f"  {heading}", no_wrap=True)
        for heading in numbers:
            table.add_column(heading, justify="right", no_wrap=True)
        return table

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


def _indented(text: str, by: int, *, at: str = "") -> Table:
    """A text whose further lines begin where the first one does."""
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column(width=by - 2)
    if at:
        line.add_column(width=len(at), style="cyan")
    line.add_column()
    line.add_row("", *([at] if at else []), text)
    return line


def _numbers(numbers: Sequence[int]) -> list[str]:
    """Jobs, runs, done, dead; the dead ones stand out."""
    *others, dead = numbers
    return [*(f"{number:,}" for number in others), f"[red]{dead:,}[/]" if dead else "0"]


def _shares(room: int, numbers: Sequence[int]) -> list[int]:
    """Cells for each number, as many as it has of the whole; what is there at all gets one if there is room."""
    total = max(1, sum(numbers))
    cells = [max(1, room * number // total) if number else 0 for number in numbers]
    cells[cells.index(max(cells))] += room - sum(cells)
    return cells


def _picture(rates: Sequence[int]) -> str:
    """Throughput over the whole time, from left to right."""
    if not rates:
        return " " * PICTURE
    per = max(1, -(-len(rates) // PICTURE))
    columns = [sum(part) / len(part) for part in (rates[start : start + per] for start in range(0, len(rates), per))]
    most = max(1, *columns)
    return "".join(STEPS[round(column / most * (len(STEPS) - 1))] for column in columns).ljust(PICTURE)


def _short(error: str) -> str:
    """The first line, and an exception's class without its module."""
    first = (error.splitlines() or [""])[0]
    name, colon, rest = first.partition(": ")
    return name.rsplit(".", 1)[-1] + colon + rest if " " not in name else first


def _can_print(console: Console, text: str) -> bool:
    try:
        text.encode(console.encoding)
    except UnicodeEncodeError:
        return False
    return True
