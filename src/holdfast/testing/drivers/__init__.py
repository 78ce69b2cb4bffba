"""Tools for driver authors: check that a driver keeps the laws of the contract (docs/reference/guarantees.md).

- conformance suite: ``cases`` and ``run_cases`` check each law with a ``Harness`` that opens the driver's store
- state machine: ``run_state_machine`` compares random calls with the ``Oracle``, a simple model of the contract
  (needs Hypothesis: ``pip install 'holdfast[testing]'``)
- simulation: ``simulate`` runs producers, workers and operators that fail, from a seed
- faulty drivers: ``FAULTY_DRIVERS`` have one bug each; the tools above must catch every one

A driver needs ``run_cases`` first; a harness is one method::

    class MyHarness(Harness):
        def open(self, *, space: str, caller_clock: bool) -> Store:
            return MyDriver("db.example", space=space, caller_clock=caller_clock)


    results = list(run_cases(MyHarness(), cases()))

The names are imported on first use, so that one tool does not load the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.testing.drivers.conformance import LAWS, Case, CaseResult, CaseStatus, cases, run_cases
    from holdfast.testing.drivers.faulty import FAULTY_DRIVERS, FaultyHarness
    from holdfast.testing.drivers.harness import CaseSkipped, Harness, UrlHarness
    from holdfast.testing.drivers.oracle import Oracle
    from holdfast.testing.drivers.simulation import SimulationReport, simulate
    from holdfast.testing.drivers.state_machine import make_state_machine, run_state_machine

__all__ = [
    "FAULTY_DRIVERS",
    "LAWS",
    "Case",
    "CaseResult",
    "CaseSkipped",
    "CaseStatus",
    "FaultyHarness",
    "Harness",
    "Oracle",
    "SimulationReport",
    "UrlHarness",
    "cases",
    "make_state_machine",
    "run_cases",
    "run_state_machine",
    "simulate",
]

_MODULES = {
    "FAULTY_DRIVERS": "faulty",
    "LAWS": "conformance",
    "Case": "conformance",
    "CaseResult": "conformance",
    "CaseSkipped": "harness",
    "CaseStatus": "conformance",
    "FaultyHarness": "faulty",
    "Harness": "harness",
    "Oracle": "oracle",
    "SimulationReport": "simulation",
    "UrlHarness": "harness",
    "cases": "conformance",
    "make_state_machine": "state_machine",
    "run_cases": "conformance",
    "run_state_machine": "state_machine",
    "simulate": "simulation",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
