"""A driver that declares a gap skips the cases of that feature and passes all other cases."""

from dataclasses import replace

import pytest

from holdfast.drivers.contract import Feature
from holdfast.drivers.memory import MemoryDriver
from holdfast.testing.drivers.conformance import cases
from holdfast.testing.drivers.harness import CaseSkipped, Harness

DECLINED_METHODS = {
    Feature.LEDGER: ("ledger",),
    Feature.REGISTRY: ("read", "write", "scan"),
    Feature.ENQUEUE_WRITES: (),
    Feature.LIMITS: ("configure",),
    Feature.SPACES: ("space",),
    Feature.KEY_LIMITS: (),  # ``Validation`` declines it
}


def memory_driver_without(feature: Feature) -> type[MemoryDriver]:
    """Return a memory driver that declines one feature and declares the gap."""
    gaps = {**MemoryDriver.capabilities.gaps, feature: "declined in this test"}

    def decline(self, *_, **__):
        self.need(feature)

    members = {
        "capabilities": replace(MemoryDriver.capabilities, gaps=gaps),
        **dict.fromkeys(DECLINED_METHODS[feature], decline),
    }
    return type("DriverWithGap", (MemoryDriver,), members)


@pytest.mark.parametrize("feature", DECLINED_METHODS)
def test_a_driver_that_declines_a_feature_passes_all_other_cases(feature):
    driver = memory_driver_without(feature)

    class DriverWithGapHarness(Harness):
        def open(self, *, space, caller_clock):
            return driver(space=space, caller_clock=caller_clock)

    harness = DriverWithGapHarness()
    passed = skipped = 0
    for case in cases():
        try:
            case.run(harness)
            passed += 1
        except CaseSkipped:
            skipped += 1
    harness.close()
    assert passed > 350
    assert skipped > 5
