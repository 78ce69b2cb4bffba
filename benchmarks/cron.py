"""Does a tick of a scheduler cost what is due, or what exists?

The same few schedules are due in every tick; around them are 100 schedules in one store and 10,000 in the other. The
two take turns. Ticks with due work and ticks without are timed: p99 of the one store against p99 of the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles

from benchmarks.comparison import Comparison
from holdfast import Holdfast
from holdfast.cron import CronRunner, Schedule
from holdfast.testing.servers.postgres import PostgresServer

FEW, MANY = 100, 10_000
DUE = 10  # schedules that are due in every tick
TICKS = 500
MAX_RATIO = 2.0


def measure(folder: Path) -> Iterator[Comparison]:
    yield from _compare("SQLite", _sides("dynamic", f"sqlite:///{folder}/few.db", f"sqlite:///{folder}/many.db"))
    with PostgresServer() as server:
        urls = server.create_database("few"), server.create_database("many")
        yield from _compare("PostgreSQL", _sides("code", *urls))


def _sides(kind: str, few_url: str, many_url: str) -> tuple[Side, Side]:
    return Side(few_url, kind, FEW), Side(many_url, kind, MANY)


class Side:
    """A store with so many schedules, of code or dynamic, and one scheduler."""

    def __init__(self, url: str, kind: str, schedules: int) -> None:
        self.kind = kind
        self._app = Holdfast(url)
        for number in range(schedules):
            name, expression = f"schedule-{number}", f"{number % 60} {number // 60 % 24} 1 1 *"
            if number < DUE:
                expression = "* * * * *"
            if kind == "code":
                self._app.cron(name).expression(expression).queue("noop").run("noop")
            else:
                self._app.schedules.put(Schedule(name=name, expression=expression, type="noop", queue="noop"))
        self._runner = CronRunner(self._app)
        self.due: list[float] = []
        self.idle: list[float] = []

    def warm_up(self, now: datetime) -> None:
        """Read what the process has not read before, and fire what became due since the schedules were put."""
        self._runner.run(now)

    def tick(self, now: datetime, *, fires: int) -> float:
        """Return the seconds of one tick."""
        start = time.perf_counter()
        fired = self._runner.run(now)
        seconds = time.perf_counter() - start
        assert len(fired) == fires, f"{len(fired)} fires at {now}, wanted {fires}"
        return seconds

    def close(self) -> None:
        """Close the store."""
        self._app.close()


def _compare(store: str, sides: tuple[Side, Side]) -> Iterator[Comparison]:
    start = datetime.now(UTC).replace(second=0, microsecond=0)
    for side in sides:
        side.warm_up(start)
    for number in range(1, TICKS + 1):
        minute = start + timedelta(minutes=number)
        for side in sides:
            side.due.append(side.tick(minute, fires=DUE))
            side.idle.append(side.tick(minute + timedelta(seconds=30), fires=0))
    few, many = sides
    for what, ours, other in ((f"{DUE} due", many.due, few.due), ("nothing due", many.idle, few.idle)):
        yield Comparison(
            question=f"{store}: p99 of a tick with {what}, {MANY:,} schedules ({many.kind}) / {FEW}",
            ratio=_p99(ours) / _p99(other),
            target=MAX_RATIO,
            at_least=False,
            ours=f"{_p99(ours) * 1e3:.2f} ms (median {median(ours) * 1e3:.2f})",
            other=f"{_p99(other) * 1e3:.2f} ms (median {median(other) * 1e3:.2f})",
        )
    for side in sides:
        side.close()


def _p99(seconds: list[float]) -> float:
    return quantiles(seconds, n=100)[98]
