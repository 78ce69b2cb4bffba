"""The conformance suite: one file per topic; each case is a function named as a sentence and cites its laws.

``python -m holdfast.testing.drivers.conformance URL`` runs the suite on a live store. A test suite calls
``case.run(harness)`` for every case of ``cases()``.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from holdfast.testing.drivers.conformance import (
    ack_writes,
    attempts,
    cancel,
    cancel_wait,
    capabilities,
    clock,
    configure,
    counters,
    dedupe,
    domain_admin,
    domain_gaps,
    domain_halt,
    domain_offsets,
    domain_past,
    domains,
    enqueue,
    enqueue_leased,
    enqueue_writes,
    estimates,
    expired_leases,
    extend,
    find,
    isolation,
    key_limits,
    key_rates,
    key_waits,
    ledger,
    ledger_readers,
    max_bytes,
    order,
    processes,
    purge,
    reap,
    refusals,
    registry,
    repeated_settlement,
    replace_dead,
    requeue,
    reserve,
    settle,
    space_admin,
    spaces,
    threads,
    trim,
    unique,
    validation,
    wait,
)
from holdfast.testing.drivers.conformance.case import LAWS, Case, case
from holdfast.testing.drivers.conformance.runner import CaseResult, CaseStatus, run_cases

__all__ = ["LAWS", "Case", "CaseResult", "CaseStatus", "case", "cases", "run_cases"]

# In the order of a job's life. Threads, processes and waits are last because they take the longest.
_TOPICS: tuple[ModuleType, ...] = (
    capabilities,
    refusals,
    validation,
    clock,
    enqueue,
    dedupe,
    reserve,
    max_bytes,
    enqueue_leased,
    unique,
    order,
    domains,
    domain_offsets,
    domain_past,
    domain_halt,
    domain_gaps,
    domain_admin,
    extend,
    settle,
    attempts,
    isolation,
    counters,
    repeated_settlement,
    replace_dead,
    reap,
    expired_leases,
    cancel,
    requeue,
    purge,
    find,
    estimates,
    configure,
    key_limits,
    key_rates,
    key_waits,
    ledger,
    ledger_readers,
    trim,
    registry,
    ack_writes,
    enqueue_writes,
    spaces,
    space_admin,
    wait,
    cancel_wait,
    threads,
    processes,
)


def cases() -> tuple[Case, ...]:
    """Return every case, topic by topic, in the order of the files."""
    return tuple(case for topic in _TOPICS for case in _cases_of(topic))


def _cases_of(topic: ModuleType) -> Iterable[Case]:
    if topic is refusals:
        return refusals.CASES
    return (member for member in vars(topic).values() if isinstance(member, Case))
