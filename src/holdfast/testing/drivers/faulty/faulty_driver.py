"""The memory driver, with places where a bug can be put in."""

from __future__ import annotations

from copy import deepcopy
from typing import ClassVar

from holdfast.clock import Clock
from holdfast.drivers.contract import Store
from holdfast.drivers.memory.driver import Memory, MemoryDriver
from holdfast.drivers.memory.space import Row, Space
from holdfast.drivers.validation import Validation
from holdfast.model.transition import Transition
from holdfast.testing.drivers.harness import Harness


class Faulty(MemoryDriver):
    """No bug yet. ``rows`` is the kind of space it keeps, ``bend`` changes what a lease's end makes of a job.

    ``validation`` is the class that checks its arguments.
    """

    rows: ClassVar[type[BentSpace]]
    validation: ClassVar[type[Validation]] = Validation

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        caller_clock: bool = False,
        space: str = "main",
        memory: Memory | None = None,
    ) -> None:
        shared = memory or Memory(clock)
        shared.spaces.default_factory = lambda: self.rows(self)
        super().__init__(caller_clock=caller_clock, space=space, memory=shared)
        self._validation = self.validation(self.capabilities, caller_clock=caller_clock, read_clock=shared.clock.now)

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:  # noqa: ARG002 - for those who bend
        """The outcome as it should be."""
        return outcome


class BentSpace(Space):
    """A space that asks its driver to bend every outcome."""

    def __init__(self, driver: Faulty) -> None:
        super().__init__()
        self.driver = driver

    def __deepcopy__(self, memo: dict[int, object]) -> BentSpace:
        """The rows copied, the driver shared."""
        copied = type(self)(self.driver)
        copied.__dict__.update({name: deepcopy(value, memo) for name, value in vars(self).items() if name != "driver"})
        return copied

    def end(self, row: Row, outcome: Transition, verb: str, now: int, started_at: int | None = None) -> None:
        """End a lease, with the outcome bent."""
        super().end(row, self.driver.bend(row, outcome, verb, now), verb, now, started_at)


Faulty.rows = BentSpace


class FaultyHarness(Harness):
    """A faulty driver in the exam."""

    def __init__(self, driver: type[MemoryDriver]) -> None:
        super().__init__()
        self._driver = driver

    def open(self, *, space: str, caller_clock: bool) -> Store:
        """A new, empty store."""
        return self._driver(space=space, caller_clock=caller_clock)
