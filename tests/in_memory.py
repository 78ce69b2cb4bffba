"""A store in memory whose verbs a test overrides, or which declines features."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from holdfast.clock import Clock
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.memory.engine import MemoryEngine, MemoryStore
from holdfast.drivers.store import Store


class InMemory(Store):
    """A new, empty store in memory."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        declined: Collection[Feature] = (),
        space: str = "main",
        caller_clock: bool = False,
    ) -> None:
        engine = MemoryEngine(MemoryStore(clock), space=space, caller_clock=caller_clock)
        engine.can = replace(engine.can, gaps={**engine.can.gaps, **dict.fromkeys(declined, "declined in this test")})
        super().__init__(engine)

    def space(self, name: str) -> Store:
        """Return another space of the store."""
        return Store(self.engine).space(name)
