"""The exam that every driver sits: plain cases, one file per verb, each named as a sentence and citing its laws.

``python -m holdfast.testing.drivers.conformance URL`` runs it on a live store; a test suite calls ``case.run(harness)``
for every case of ``cases()``.
"""

from __future__ import annotations

from types import ModuleType

from holdfast.testing.drivers.conformance import (
    attempts,
    cancel,
    capabilities,
    clock,
    configure,
    dedupe,
    domains,
    enqueue,
    enqueue_leased,
    extend,
    find,
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
    validation,
    wait,
    writes,
)
from holdfast.testing.drivers.conformance.case import LAWS, Case, case
from holdfast.testing.drivers.conformance.runner import Outcome, Verdict, examine

__all__ = ["LAWS", "Case", "Outcome", "Verdict", "case", "cases", "examine"]

# The order in which a job meets them; races and waits last, because they take the longest.
_VERBS: tuple[ModuleType, ...] = (
    capabilities,
    validation,
    clock,
    enqueue,
    dedupe,
    reserve,
    enqueue_leased,
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
