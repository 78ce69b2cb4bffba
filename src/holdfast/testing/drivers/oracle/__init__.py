"""A small model of the contract, slow and plain on purpose: what a driver is compared with, call by call.

It shares no decision with any driver: every rule is written out again from the laws, and every question is
answered by looking through all jobs. One space, an explicit ``now``, no checks at the door, no offsets, no halting.
"""

from holdfast.testing.drivers.oracle.facts import Kept
from holdfast.testing.drivers.oracle.tools import Oracle

__all__ = ["Kept", "Oracle"]
