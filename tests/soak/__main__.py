"""`python3 run soak`: the same faults as the tests, in large numbers. Bounded: it ends by itself.

Prints one line per part with what was run. Exit code 1 if a promise was broken, with the seed or steps that show it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import holdfast
from holdfast.drivers.contract import Store
from holdfast.testing.drivers.simulation import simulate
from holdfast.testing.drivers.state_machine import run_state_machine
from tests.soak import postgres
from tests.soak.audit import audits
from tests.soak.crashes import crashes
from tests.soak.history import history
from tests.soak.kill import kill
from tests.soak.poison import poison
from tests.soak.restarts import restarts
from tests.soak.zoo import zoo
from tests.sqlite.test_processes import run_on_file


def fighting(folder: Path, scale: float) -> str:
    jobs, kills = int(5000 * scale), int(60 * scale)
    run_on_file(folder / "fight.db", producers=3, consumers=5, jobs=jobs, kills=kills)
    return (
        f"8 processes on one SQLite file, {3 * jobs:,} jobs, {kills} SIGKILLs: none lost, none ended twice, no overlap"
    )


def simulation(folder: Path, scale: float) -> str:
    counts = {"memory": int(6000 * scale), "sqlite": int(600 * scale)}
    for name, count in counts.items():
        opened = _spaces(name, folder)
        for seed in range(count):
            report = simulate(10_000 + seed, open_store=opened)
            assert report.failure is None, f"seed {report.seed} on {name}: {report.failure}"
    return f"simulation, {counts['memory']:,} seeds on memory and {counts['sqlite']:,} on SQLite: no law broken"


def machine(folder: Path, scale: float) -> str:
    counts = {"memory": int(1500 * scale), "sqlite": int(400 * scale)}
    for name, count in counts.items():
        run_state_machine(_spaces(name, folder), max_examples=count, derandomize=False)
    return (
        f"state machine beside the oracle, {counts['memory']:,} games on memory and {counts['sqlite']:,} on SQLite: "
        "no difference"
    )


def killing(folder: Path, scale: float) -> str:
    return kill(folder, workers=6, jobs=int(20_000 * scale), seconds=120 * scale)


def poisoning(folder: Path, scale: float) -> str:
    return poison(folder, jobs=int(1000 * scale))


def stubborn(folder: Path, scale: float) -> str:
    return zoo(folder, rounds=int(500 * scale))


def restarting(folder: Path, scale: float) -> str:
    return restarts(folder, count=int(50 * scale))


def crashing(folder: Path, scale: float) -> str:
    return crashes(folder, workers=3, count=max(1, int(10 * scale)))


def remembering(folder: Path, scale: float) -> str:
    return history(folder, kills=max(1, int(20 * scale)))


def auditing(folder: Path, scale: float) -> str:
    return audits(folder, rows=int(10_000_000 * scale))


def _spaces(name: str, folder: Path) -> Callable[[], Store]:
    if name == "memory":
        return lambda: holdfast.connect("memory://", caller_clock=True)
    store = holdfast.connect(f"sqlite:///{folder}/{name}.db", caller_clock=True)
    numbers = itertools.count()
    return lambda: store.space(f"space-{next(numbers)}")


PARTS = {
    "fight": fighting,
    "simulation": simulation,
    "machine": machine,
    "kill": killing,
    "poison": poisoning,
    "zoo": stubborn,
    "restarts": restarting,
    "history": remembering,
    "pg-crashes": lambda _, scale: postgres.crashes(scale),
    "pg-workers": crashing,
    "pg-sessions": lambda _, scale: postgres.sessions(scale),
    "pg-snapshot": lambda _, scale: postgres.snapshot(scale),
    "pg-fight": lambda _, scale: postgres.fighting(scale),
    "pg-games": lambda _, scale: postgres.games(scale),
    "audit": auditing,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="run soak", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which parts; all if none is named")
    parser.add_argument("--scale", type=float, default=1.0, help="times the usual numbers (default: 1)")
    options = parser.parse_args()
    broken = 0
    for name in options.parts or PARTS:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="holdfast-soak-") as folder:
            try:
                said = PARTS[name](Path(folder), options.scale)
            except Exception:
                traceback.print_exc()
                said, broken = "BROKEN, see above", broken + 1
        print(f"{name:12} {time.monotonic() - started:6.1f} s  {said}", flush=True)
    print(f"soak: {len(options.parts or PARTS) - broken} passed, {broken} failed")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
