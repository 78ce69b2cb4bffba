"""`python3 run bench`: every question with its ratio; exit code 1 if one is not as wanted."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import (
    plot,
    postgres_growth,
    postgres_speed,
    postgres_worker,
    spark_audit,
    spark_costs,
    spark_data,
    spark_slots,
    sqlite_growth,
    sqlite_speed,
    sqlite_worker,
)
from benchmarks.measure import Answer

BENCHMARKS: dict[str, Callable[[Path], Iterator[Answer]]] = {
    "sqlite-speed": sqlite_speed.answers,
    "sqlite-growth": sqlite_growth.answers,
    "sqlite-worker": sqlite_worker.answers,
    "postgres-speed": postgres_speed.answers,
    "postgres-growth": postgres_growth.answers,
    "postgres-worker": postgres_worker.answers,
    "spark-slots": spark_slots.answers,
    "spark-data": spark_data.answers,
    "spark-audit": spark_audit.answers,
    "spark-costs": spark_costs.answers,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="run bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], help="which ones; all if none is named")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="also draw the growth of latencies, as SVG")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    found: list[Answer] = []
    for name in arguments.names or BENCHMARKS:
        before = len(found)
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder, console.status(f"measuring {name}"):
            for answer in BENCHMARKS[name](Path(folder)):
                found.append(answer)
                if arguments.json:
                    print(json.dumps(answer.as_dict()), flush=True)
                else:
                    console.print(f"  {answer.question}: [bold]{answer.ratio:.2f}[/]", highlight=False)
        if arguments.plot is not None:
            _draw(arguments.plot, name, found[before:])
    if not arguments.json:
        Console().print(_table(found))
    return 0 if all(answer.good for answer in found) else 1


def _draw(folder: Path, name: str, found: list[Answer]) -> None:
    """The first situation of all is the one that the others are compared with."""
    times = {place: pair for answer in found for place, pair in reversed(answer.times.items())}
    if times:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.svg").write_text(
            plot.latencies(f"{name}: does reserve stay quick?", times), encoding="utf-8"
        )


def _table(found: list[Answer]) -> Table:
    table = Table(title="Ratios of this run")
    for heading in ("question", "ratio", "wanted", "ours", "other"):
        table.add_column(heading, justify="left" if heading == "question" else "right")
    for answer in found:
        wanted = f"{'≥' if answer.at_least else '≤'} {answer.wanted}"
        mark = "green" if answer.good else "red"
        table.add_row(answer.question, f"[{mark}]{answer.ratio:.2f}[/]", wanted, answer.ours, answer.other)
    return table


if __name__ == "__main__":
    sys.exit(main())
