"""Run one seed. The same seed produces the same run, event by event."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.connect import connect
from holdfast.drivers.store import Store
from tests.drivers.simulation.actors import make_actors
from tests.drivers.simulation.checker import Violation
from tests.drivers.simulation.environment import Environment

DEFAULT_STEPS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationReport:
    """The result of one seed; ``failure`` is None or the broken law, ``digest`` is the hash of the trace."""

    seed: int
    steps: int
    digest: str
    trace: list[str]
    failure: str | None = None


def open_memory_store() -> Store:
    """Open the default store of a simulation."""
    return connect("memory://", caller_clock=True)


def simulate(
    seed: int, *, steps: int = DEFAULT_STEPS, open_store: Callable[[], Store] = open_memory_store
) -> SimulationReport:
    """Let the actors act ``steps`` times in an order that the seed decides, drain the queues and check the final state.

    ``open_store`` returns an empty space, opened with ``caller_clock=True``. A broken law or an error of the driver is
    not raised; it is in the report.
    """
    environment = Environment(open_store(), seed)
    actors = make_actors(seed)
    failure = None
    try:
        for _ in range(steps):
            environment.pass_time()
            environment.rng.choice(actors).act(environment)
        environment.drain()
    except Violation as violation:
        failure = str(violation)
    except Exception as error:  # noqa: BLE001 - any error that a driver raises is a failure of the run
        where = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    digest = hashlib.blake2b("\n".join(environment.trace).encode(), digest_size=16).hexdigest()
    return SimulationReport(seed=seed, steps=steps, digest=digest, trace=environment.trace, failure=failure)
