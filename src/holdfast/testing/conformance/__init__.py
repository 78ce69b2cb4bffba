"""The exam that every driver sits: plain cases, one file per verb, each named as a sentence and citing its laws.

``python -m holdfast.testing.conformance URL`` runs it against a live store; a test suite runs ``case.run(harness)``
for every case of ``cases()``.
"""

from __future__ import annotations

from types import ModuleType

from holdfast.testing.conformance import (
    attempts,
    cancel,
    capabilities,
    clock,
    configure,
    dedupe,
    domains,
    doors,
    enqueue,
    extend,
    find,
    intake,
    ledger,
    order,
    processes,
    purge,
    reap,
    registry,
    replay,
    requeue,
    reserve,
    settle,
    spaces,
    threads,
    trim,
    wait,
    writes,
)
from holdfast.testing.conformance.case import LAWS, Case, case
from holdfast.testing.conformance.exam import Outcome, Verdict, examine

__all__ = ["LAWS", "Case", "Outcome", "Verdict", "case", "cases", "examine"]

# The order in which a job meets them; races and waits last, because they take the longest.
_VERBS: tuple[ModuleType, ...] = (
    capabilities,
    doors,
    clock,
    enqueue,
    dedupe,
    reserve,
    intake,
    order,
    domains,
    extend,
    settle,
    attempts,
    replay,
    reap,
    cancel,
    requeue,
    purge,
    find,
    configure,
    ledger,
    trim,
    registry,
    writes,
    spaces,
    wait,
    threads,
    processes,
)


def cases() -> tuple[Case, ...]:
    """All of them, verb by verb, in the order of their files."""
    return tuple(found for verb in _VERBS for found in vars(verb).values() if isinstance(found, Case))
