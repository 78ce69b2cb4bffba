"""The base of the faulty drivers: the memory driver, with methods that a bug overrides."""

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

RACE_WINDOW_SECONDS = 0.005  # long enough that every thread of a race arrives between the two steps


class FaultyDriver(MemoryDriver):
    """A driver without a bug. A subclass overrides a method, or sets one of these.

    ``space_type`` is the class of its spaces, ``validation`` checks the arguments of its calls, and
    ``alter_transition`` changes the transition of a job whose lease ends.
    """

    space_type: ClassVar[type[FaultySpace]]
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
        shared.spaces.default_factory = lambda: self.space_type(self)
        super().__init__(caller_clock=caller_clock, space=space, memory=shared)
        self._validation = self.validation(self.capabilities, caller_clock=caller_clock, read_clock=shared.clock.now)

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:  # noqa: ARG002 - for subclasses
        """Return the transition unchanged."""
        return transition


class FaultySpace(Space):
    """A space that lets its driver alter every transition."""

    def __init__(self, driver: FaultyDriver) -> None:
        super().__init__()
        self.driver = driver

    def __deepcopy__(self, memo: dict[int, object]) -> FaultySpace:
        """Copy the rows, share the driver."""
        copied = type(self)(self.driver)
        copied.__dict__.update({name: deepcopy(value, memo) for name, value in vars(self).items() if name != "driver"})
        return copied

    def end(self, row: Row, transition: Transition, verb: str, now: int, started_at: int | None = None) -> None:
        """End a lease with the altered transition."""
        super().end(row, self.driver.alter_transition(row, transition, verb, now), verb, now, started_at)


FaultyDriver.space_type = FaultySpace


class FaultyHarness(Harness):
    """The harness for a faulty driver."""

    def __init__(self, driver: type[MemoryDriver]) -> None:
        super().__init__()
        self._driver = driver

    def open(self, *, space: str, caller_clock: bool) -> Store:
        """Open a new, empty store."""
        return self._driver(space=space, caller_clock=caller_clock)
