"""Memory drivers with one bug each. The conformance suite must catch every one of them."""

from __future__ import annotations

from tests.drivers.faulty import (
    attempts,
    domains,
    enqueue,
    enqueue_writes,
    extend,
    halts,
    isolation,
    key_limits,
    leases,
    ledger,
    limits,
    offsets,
    operators,
    order,
    reap,
    registry,
    settle,
    space_admin,
    store,
    wait,
)
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultyHarness

__all__ = ["FAULTY_DRIVERS", "FaultyDriver", "FaultyHarness"]

FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    *leases.FAULTY_DRIVERS,
    *extend.FAULTY_DRIVERS,
    *reap.FAULTY_DRIVERS,
    *settle.FAULTY_DRIVERS,
    *attempts.FAULTY_DRIVERS,
    *isolation.FAULTY_DRIVERS,
    *limits.FAULTY_DRIVERS,
    *key_limits.FAULTY_DRIVERS,
    *order.FAULTY_DRIVERS,
    *domains.FAULTY_DRIVERS,
    *offsets.FAULTY_DRIVERS,
    *halts.FAULTY_DRIVERS,
    *enqueue.FAULTY_DRIVERS,
    *enqueue_writes.FAULTY_DRIVERS,
    *ledger.FAULTY_DRIVERS,
    *operators.FAULTY_DRIVERS,
    *store.FAULTY_DRIVERS,
    *space_admin.FAULTY_DRIVERS,
    *registry.FAULTY_DRIVERS,
    *wait.FAULTY_DRIVERS,
)
