"""Choose a state machine and run it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from holdfast.drivers.store import Store
from tests.drivers.state_machine.domain_machine import DomainMachine
from tests.drivers.state_machine.machine import LeaseMachine


def make_state_machine(open_store: Callable[[], Store], *, domains: bool = False) -> type[RuleBasedStateMachine]:
    """Return the state machine for one kind of store.

    ``open_store`` returns an empty space, opened with ``caller_clock=True``. The store needs every feature except
    joined transactions and those of ordered domains. With ``domains``, the machine draws offsets, halts and gaps, as
    far as the store has them, and less of the rest. The machine does not close the store.
    """
    machine = DomainMachine if domains else LeaseMachine
    return type(machine.__name__, (machine,), {"open_store": staticmethod(open_store)})


def run_state_machine(
    open_store: Callable[[], Store],
    *,
    domains: bool = False,
    max_examples: int = 100,
    steps: int = 50,
    derandomize: bool = True,
    shrink: bool = True,
) -> None:
    """Run ``max_examples`` sequences of ``steps`` calls; raise the first difference and print the calls that led to it.

    With ``derandomize=False`` every run draws other sequences; use this for long runs. See ``make_state_machine``.
    """
    phases = [Phase.explicit, Phase.generate] + ([Phase.shrink] if shrink else [])
    run_state_machine_as_test(
        make_state_machine(open_store, domains=domains),
        settings=settings(
            max_examples=max_examples,
            stateful_step_count=steps,
            derandomize=derandomize,
            database=None,
            deadline=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )
