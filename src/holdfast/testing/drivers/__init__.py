"""Tools for driver authors: check that a driver keeps the laws of the contract (docs/reference/guarantees.md).

``cases`` and ``run_cases`` check each law with a ``Harness`` that opens the driver's store; a harness is one method::

    class MyHarness(Harness):
        def open(self, *, space: str, caller_clock: bool) -> Store:
            return MyDriver("db.example", space=space, caller_clock=caller_clock)


    results = list(run_cases(MyHarness(), cases()))
"""

from holdfast.testing.drivers.conformance import LAWS, Case, CaseResult, CaseStatus, cases, run_cases
from holdfast.testing.drivers.harness import CaseSkipped, Harness, UrlHarness

__all__ = [
    "LAWS",
    "Case",
    "CaseResult",
    "CaseSkipped",
    "CaseStatus",
    "Harness",
    "UrlHarness",
    "cases",
    "run_cases",
]
