"""Run benchmarks and print every ratio; the exit code is 1 if a ratio misses its target."""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import (
    cron,
    domains,
    guards,
    http_service,
    logs,
    plot,
    postgres_growth,
    postgres_speed,
    postgres_worker,
    signing,
    spark_audit,
    spark_costs,
    spark_data,
    spark_slots,
    sqlite_growth,
    sqlite_speed,
    sqlite_worker,
    work_lease,
)
from benchmarks.comparison import Comparison

BENCHMARKS: dict[str, ModuleType] = {
    "sqlite-speed": sqlite_speed,
    "sqlite-growth": sqlite_growth,
    "sqlite-worker": sqlite_worker,
    "cron": cron,
    "logs": logs,
    "signing": signing,
    "guards": guards,
    "http": http_service,
    "work-lease": work_lease,
    "domains": domains,
    "postgres-speed": postgres_speed,
    "postgres-growth": postgres_growth,
    "postgres-worker": postgres_worker,
    "spark-slots": spark_slots,
    "spark-data": spark_data,
    "spark-audit": spark_audit,
    "spark-costs": spark_costs,
}


def main() -> int:
    questions = "\n".join(f"  {name:<16} {_question(module)}" for name, module in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="run bench",
        description=__doc__,
        epilog=f"benchmarks and their questions:\n{questions}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", choices=[*BENCHMARKS, []], metavar="NAME", help="a benchmark; by default all of them"
    )
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="also draw latencies and rates as SVG")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--scale", type=float, default=1.0, help="a factor for the number of jobs, of: domains")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    comparisons: list[Comparison] = []
    for name in arguments.names or BENCHMARKS:
        before = len(comparisons)
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder, console.status(f"measuring {name}"):
            for comparison in BENCHMARKS[name].measure(Path(folder), **_scale(BENCHMARKS[name], arguments.scale)):
                comparisons.append(comparison)
                if arguments.json:
                    print(json.dumps(comparison.to_json()), flush=True)
                else:
                    console.print(f"  {comparison.question}: [bold]{comparison.ratio:.2f}[/]", highlight=False)
        if arguments.plot is not None:
            _draw(arguments.plot, name, comparisons[before:])
    if not arguments.json:
        Console().print(_table(comparisons))
    return 0 if all(comparison.meets_target for comparison in comparisons) else 1


def _scale(module: ModuleType, scale: float) -> dict[str, Any]:
    return {"scale": scale} if "scale" in inspect.signature(module.measure).parameters else {}


def _question(module: ModuleType) -> str:
    return (module.__doc__ or "").partition("\n")[0]


def _draw(folder: Path, name: str, comparisons: list[Comparison]) -> None:
    # Reversed, because the last entry of every comparison is the situation that all others are compared with.
    latencies = {
        situation: seconds
        for comparison in comparisons
        for situation, seconds in reversed(comparison.latencies.items())
    }
    rates = {situation: rate for comparison in comparisons for situation, rate in reversed(comparison.rates.items())}
    if latencies:
        _write(folder / f"{name}.svg", plot.draw_latencies(f"{name}: does reserve stay fast?", latencies))
    if rates:
        _write(folder / f"{name}-rates.svg", plot.draw_rates(f"{name}: jobs per second", rates))


def _write(path: Path, svg: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(svg, encoding="utf-8")


def _table(comparisons: list[Comparison]) -> Table:
    table = Table(title="Ratios of this run")
    for heading in ("comparison", "ratio", "target", "Holdfast", "other"):
        table.add_column(heading, justify="left" if heading == "comparison" else "right")
    for comparison in comparisons:
        target = f"{'≥' if comparison.at_least else '≤'} {comparison.target}"
        colour = "green" if comparison.meets_target else "red"
        ratio = f"[{colour}]{comparison.ratio:.2f}[/]"
        table.add_row(comparison.question, ratio, target, comparison.ours, comparison.other)
    return table


if __name__ == "__main__":
    sys.exit(main())
