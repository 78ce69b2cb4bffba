"""The exam is fair to a driver that says what it does not keep: it is asked for the rest, and for all of it."""

from dataclasses import replace

import pytest

from holdfast.drivers.contract import Feature
from holdfast.drivers.memory import MemoryDriver
from holdfast.testing.drivers.conformance import cases
from holdfast.testing.drivers.harness import Harness, Skipped

DECLINED = {
    Feature.LEDGER: ("ledger",),
    Feature.REGISTRY: ("read", "write", "scan"),
    Feature.LIMITS: ("configure",),
    Feature.SPACES: ("space",),
}


def without(feature: Feature) -> type[MemoryDriver]:
    """The memory driver, honest about a gap."""
    gaps = {**MemoryDriver.capabilities.gaps, feature: "not in this one"}

    def decline(self, *_, **__):
        self.need(feature)

    members = {
        "capabilities": replace(MemoryDriver.capabilities, gaps=gaps),
        **dict.fromkeys(DECLINED[feature], decline),
    }
    return type("Modest", (MemoryDriver,), members)


@pytest.mark.parametrize("feature", DECLINED)
def test_a_driver_that_declines_a_feature_passes_everything_else(feature):
    driver = without(feature)

    class Modest(Harness):
        def open(self, *, space, caller_clock):
            return driver(space=space, caller_clock=caller_clock)

    harness = Modest()
    sat = skipped = 0
    for case in cases():
        try:
            case.run(harness)
            sat += 1
        except Skipped:
            skipped += 1
    harness.close()
    assert sat > 350
    assert skipped > 5
