"""Many seeds from the command line; the first one that breaks a law is told how to be replayed."""

# ruff: noqa: T201 - a program for the command line

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Callable

from holdfast.clock import monotonic
from holdfast.connect import connect
from holdfast.drivers.contract import Store
from holdfast.testing.drivers.simulation.run import STEPS, Report, memory, simulate


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds asked for; gives 1 if one of them failed."""
    options = _parser().parse_args(arguments)
    opened = _spaces(options.store)
    seeds = range(options.first, options.first + options.seeds) if options.seed is None else [options.seed]
    began = monotonic()
    for seed in seeds:
        report = simulate(seed, steps=options.steps, open_store=opened)
        if options.trace:
            print(*report.trace, sep="\n")
        if report.failure is not None:
            print(_replay(report, options.store))
            return 1
    seconds = monotonic() - began
    count = len(seeds)
    print(
        f"{count} seeds, {count * options.steps} steps, {seconds:.1f} s "
        f"({count / seconds:.0f} seeds/s): no law broken" + (f", digest {report.digest}" if count == 1 else "")
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.drivers.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many (default: 2000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: 0)")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"acts in each (default: {STEPS})")
    parser.add_argument("--trace", action="store_true", help="print every event")
    parser.add_argument("--store", default="memory://", help="the URL of a store (default: memory://)")
    return parser


def _spaces(url: str) -> Callable[[], Store]:
    """A space of its own for each seed and each run, so that a store that outlives the run can be used again."""
    if url == "memory://":
        return memory
    store = connect(url, caller_clock=True)
    run = secrets.token_hex(4)
    opened = 0

    def fresh() -> Store:
        nonlocal opened
        opened += 1
        return store.space(f"simulation-{run}-{opened}")

    return fresh


def _replay(report: Report, store: str) -> str:
    where = "" if store == "memory://" else f" --store {store}"
    steps = "" if report.steps == STEPS else f" --steps {report.steps}"
    return (
        f"seed {report.seed}: {report.failure}\n"
        f"replay: python -m holdfast.testing.drivers.simulation --seed {report.seed}{steps}{where} --trace"
    )


if __name__ == "__main__":
    sys.exit(main())
