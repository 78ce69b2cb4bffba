"""A Hypothesis state machine that sends the same calls to a driver and to the oracle and compares every answer.

Needs Hypothesis: ``pip install 'holdfast[testing]'``.
"""

try:
    import hypothesis  # noqa: F401 - only to say what is missing
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "holdfast.testing.drivers.state_machine needs the package hypothesis: pip install 'holdfast[testing]'",
        name=error.name,
    ) from error

from holdfast.testing.drivers.state_machine.comparison import ComparedStore
from holdfast.testing.drivers.state_machine.run import make_state_machine, run_state_machine

__all__ = ["ComparedStore", "make_state_machine", "run_state_machine"]
