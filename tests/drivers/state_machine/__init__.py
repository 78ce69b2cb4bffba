"""A Hypothesis state machine that sends the same calls to a driver and to the oracle and compares every answer."""

from tests.drivers.state_machine.comparison import ComparedStore
from tests.drivers.state_machine.run import make_state_machine, run_state_machine

__all__ = ["ComparedStore", "make_state_machine", "run_state_machine"]
