"""Run the fault tests in large numbers. Every soak is bounded: it ends without a signal.

Prints one line per soak. The exit code is 1 if a guarantee was broken; the traceback has the seed or the steps.
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
from holdfast.driver import Store
from tests.drivers.simulation import simulate
from tests.drivers.state_machine import run_state_machine
from tests.soak import postgres
from tests.soak.artifacts import run_artifacts
from tests.soak.cron import run_cron
from tests.soak.history_kills import run_history_kills
from tests.soak.hostile_handlers import run_hostile_handlers
from tests.soak.http import run_http
from tests.soak.http_fuzz import run_http_fuzz
from tests.soak.http_limits import run_http_limits
from tests.soak.http_neighbours import run_http_neighbours
from tests.soak.http_overload import run_http_overload_soak
from tests.soak.large_counts import run_large_counts
from tests.soak.large_payloads import run_large_payloads
from tests.soak.last_attempts import run_last_attempts
from tests.soak.ordered import run_ordered_soak
from tests.soak.ordered_slots import run_ordered_slots
from tests.soak.planted_violations import run_planted_violations
from tests.soak.poison import run_poison
from tests.soak.postgres_versions import run_versions
from tests.soak.random_kills import run_random_kills
from tests.soak.rolling_restarts import run_rolling_restarts
from tests.soak.schedulers import run_schedulers
from tests.soak.server_crashes import run_server_crashes
from tests.soak.service_restarts import run_service_soak
from tests.soak.signing import run_signing
from tests.soak.spark_runs import run_spark_runs
from tests.soak.work_lease import run_work_lease
from tests.soak.worker_killer import run_worker_killers
from tests.sqlite.test_processes import run_on_file


def _run_competing_processes(folder: Path, scale: float) -> str:
    jobs, kills = int(5000 * scale), int(60 * scale)
    run_on_file(folder / "processes.db", producers=3, consumers=5, jobs=jobs, kills=kills)
    return (
        f"8 processes on one SQLite file, {3 * jobs:,} jobs, {kills} SIGKILLs: none lost, none ended twice, no overlap"
    )


def _run_simulation(folder: Path, scale: float) -> str:
    counts = {"memory": int(6000 * scale), "sqlite": int(600 * scale)}
    for name, count in counts.items():
        open_store = _space_opener(name, folder)
        for seed in range(count):
            report = simulate(10_000 + seed, open_store=open_store)
            assert report.failure is None, f"seed {report.seed} on {name}: {report.failure}"
    return f"simulation with {counts['memory']:,} seeds on memory and {counts['sqlite']:,} on SQLite: no law broken"


def _run_state_machine(folder: Path, scale: float) -> str:
    counts = {"memory": int(1500 * scale), "sqlite": int(400 * scale)}
    for name, count in counts.items():
        run_state_machine(_space_opener(name, folder), max_examples=count, derandomize=False)
    return (
        f"state machine against the oracle, {counts['memory']:,} runs on memory and {counts['sqlite']:,} on SQLite: "
        "no difference"
    )


def _space_opener(name: str, folder: Path) -> Callable[[], Store]:
    """A function that opens a new, empty space."""
    if name == "memory":
        return lambda: holdfast.connect("memory://", caller_clock=True)
    store = holdfast.connect(f"sqlite:///{folder}/{name}.db", caller_clock=True)
    numbers = itertools.count()
    return lambda: store.space(f"space-{next(numbers)}")


Soak = Callable[[Path, float], str]

SOAKS: dict[str, Soak] = {
    "processes": _run_competing_processes,
    "simulation": _run_simulation,
    "state-machine": _run_state_machine,
    "cron": run_cron,
    "kills": lambda folder, scale: run_random_kills(folder, workers=6, jobs=int(20_000 * scale), seconds=120 * scale),
    "poison": lambda folder, scale: run_poison(folder, jobs=int(1000 * scale)),
    "hostile-handlers": lambda folder, scale: run_hostile_handlers(folder, rounds=int(500 * scale)),
    "worker-killer": lambda folder, scale: run_worker_killers(folder, runs=max(2, int(50 * scale))),
    "last-attempts": lambda folder, scale: run_last_attempts(folder, kills=max(4, int(400 * scale))),
    "large-payloads": lambda folder, scale: run_large_payloads(
        folder, f"sqlite:///{folder}/jobs.db", jobs=int(10_000 * scale), most_bytes=600 << 20
    ),
    "large-counts": lambda folder, scale: run_large_counts(folder, jobs=max(200_000, int(10_000_000 * scale))),
    "signing": lambda folder, scale: run_signing(
        folder, corruptions=int(100_000 * scale), rotations=max(1, int(10 * scale))
    ),
    "schedulers": lambda folder, scale: run_schedulers(folder, kills=max(5, int(200 * scale))),
    "work-lease": lambda folder, scale: run_work_lease(folder, count=max(30, int(500 * scale))),
    "ordered": run_ordered_soak,
    "ordered-slots": lambda folder, scale: run_ordered_slots(
        folder, domains=50, offsets=max(10, int(200 * scale)), seconds=max(5.0, 120 * scale)
    ),
    "restarts": lambda folder, scale: run_rolling_restarts(folder, count=int(50 * scale)),
    "service": run_service_soak,
    "http": run_http,
    "http-fuzz": run_http_fuzz,
    "artifacts": run_artifacts,
    "http-overload": run_http_overload_soak,
    "http-limits": run_http_limits,
    "http-neighbours": run_http_neighbours,
    "history": lambda folder, scale: run_history_kills(folder, kills=max(1, int(20 * scale))),
    "spark-runs": lambda folder, scale: run_spark_runs(folder, count=max(5, int(100 * scale))),
    "pg-crashes": lambda _, scale: postgres.run_crashes(scale),
    "pg-workers": lambda folder, scale: run_server_crashes(folder, workers=3, count=max(1, int(10 * scale))),
    "pg-sessions": lambda _, scale: postgres.run_terminated_sessions(scale),
    "pg-snapshot": lambda _, scale: postgres.run_old_snapshot(scale),
    "pg-processes": lambda _, scale: postgres.run_competing_processes(scale),
    "pg-simulation": lambda _, scale: postgres.run_simulation(scale),
    "pg-verbs": lambda _, scale: postgres.run_random_verbs(scale),
    "pg-versions": lambda folder, _: run_versions(folder),
    "audit": lambda folder, scale: run_planted_violations(folder, rows=int(10_000_000 * scale)),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="run soak", description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[*SOAKS, []], metavar="NAME", help=f"by default all of: {', '.join(SOAKS)}"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="a factor for the numbers of jobs and faults")
    options = parser.parse_args()
    names = options.names or list(SOAKS)
    failed = 0
    for name in names:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="holdfast-soak-") as folder:
            try:
                result = SOAKS[name](Path(folder), options.scale)
            except Exception:
                traceback.print_exc()
                result, failed = "FAILED, see the traceback above", failed + 1
        print(f"{name:16} {time.monotonic() - started:6.1f} s  {result}", flush=True)
    print(f"soak: {len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
