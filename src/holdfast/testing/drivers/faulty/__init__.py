"""Drivers with one bug each: the exam is examined, every one of them must be caught."""

from __future__ import annotations

from holdfast.testing.drivers.faulty import counting, leases, order, registry, truth
from holdfast.testing.drivers.faulty.faulty_driver import Faulty, FaultyHarness

__all__ = ["FAULTY", "Faulty", "FaultyHarness"]

FAULTY: tuple[type[Faulty], ...] = (
    *leases.FAULTY,
    *counting.FAULTY,
    *order.FAULTY,
    *registry.FAULTY,
    *truth.FAULTY,
)
