"""Run many seeds of the simulation; stop at the first seed that breaks a law and print how to replay it."""

# ruff: noqa: T201 - a program for the command line

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Callable

from holdfast.clock import monotonic
from holdfast.connect import connect
from holdfast.drivers.store import Store
from tests.drivers.simulation.run import DEFAULT_STEPS, SimulationReport, open_memory_store, simulate

MEMORY_URL = "memory://"


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds; return 1 if one of them failed."""
    options = _parser().parse_args(arguments)
    open_store = _store_opener(options.store)
    seeds = range(options.first, options.first + options.seeds) if options.seed is None else [options.seed]
    started = monotonic()
    for seed in seeds:
        report = simulate(seed, steps=options.steps, open_store=open_store)
        if options.trace:
            print(*report.trace, sep="\n")
        if report.failure is not None:
            print(_failure_text(report, options.store))
            return 1
    seconds = monotonic() - started
    count = len(seeds)
    print(
        f"{count} seeds, {count * options.steps} steps, {seconds:.1f} s "
        f"({count / seconds:.0f} seeds/s): no law broken" + (f", digest {report.digest}" if count == 1 else "")
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.drivers.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="number of seeds (default: 2000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--seed", type=int, help="run only this seed")
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS, help=f"actions per seed (default: {DEFAULT_STEPS})")
    parser.add_argument("--trace", action="store_true", help="print every event")
    parser.add_argument("--store", default=MEMORY_URL, help=f"the URL of a store (default: {MEMORY_URL})")
    return parser


def _store_opener(url: str) -> Callable[[], Store]:
    """Return a function that opens a new space for each seed, so that a persistent store can be used many times."""
    if url == MEMORY_URL:
        return open_memory_store
    store = connect(url, caller_clock=True)
    run_id = secrets.token_hex(4)
    count = 0

    def open_new_space() -> Store:
        nonlocal count
        count += 1
        return store.space(f"simulation-{run_id}-{count}")

    return open_new_space


def _failure_text(report: SimulationReport, store: str) -> str:
    store_option = "" if store == MEMORY_URL else f" --store {store}"
    steps_option = "" if report.steps == DEFAULT_STEPS else f" --steps {report.steps}"
    return (
        f"seed {report.seed}: {report.failure}\n"
        f"replay: python -m tests.drivers.simulation "
        f"--seed {report.seed}{steps_option}{store_option} --trace"
    )


if __name__ == "__main__":
    sys.exit(main())
