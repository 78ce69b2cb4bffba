"""One seed, one story: the same seed tells the same story, event by event."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.connect import connect
from holdfast.drivers.contract import Store
from holdfast.testing.drivers.simulation.actors import cast
from holdfast.testing.drivers.simulation.checker import Violation
from holdfast.testing.drivers.simulation.world import World

STEPS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How one seed went; ``failure`` is None or what was broken, ``digest`` is that of the whole trace."""

    seed: int
    steps: int
    digest: str
    trace: list[str]
    failure: str | None = None


def memory() -> Store:
    """The store of a simulation that names no other."""
    return connect("memory://", caller_clock=True)


def simulate(seed: int, *, steps: int = STEPS, open_store: Callable[[], Store] = memory) -> Report:
    """Let everybody act ``steps`` times in an order that the seed decides, drain what is left, and judge it all.

    ``open_store`` gives an empty space, opened with ``caller_clock=True``. Nothing is raised for a broken law, nor for
    an error in the driver: both are in the report.
    """
    world = World(open_store(), seed)
    actors = cast(seed)
    failure = None
    try:
        for _ in range(steps):
            world.pass_time()
            world.dice.choice(actors).act(world)
        world.drain()
    except Violation as violation:
        failure = str(violation)
    except Exception as error:  # noqa: BLE001 - whatever a driver raises here is a finding, and the trace leads to it
        where = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    digest = hashlib.blake2b("\n".join(world.trace).encode(), digest_size=16).hexdigest()
    return Report(seed=seed, steps=steps, digest=digest, trace=world.trace, failure=failure)
