"""A driver that declares gaps skips the cases of those features and passes all other cases."""

from dataclasses import replace

import pytest

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.memory import MemoryDriver
from holdfast.testing.drivers.conformance import cases
from holdfast.testing.drivers.harness import CaseSkipped, Harness

DECLINED_METHODS = {
    (Feature.LEDGER,): ("ledger",),
    (Feature.REGISTRY,): ("read", "write", "scan"),
    (Feature.ENQUEUE_WRITES,): (),
    (Feature.LIMITS,): ("configure",),
    (Feature.SPACES,): ("space",),
    # ``Validation`` declines these
    (Feature.KEY_LIMITS, Feature.OFFSETS, Feature.HALT, Feature.GAPS): (),
}


def memory_driver_without(features: tuple[Feature, ...]) -> type[MemoryDriver]:
    """Return a memory driver that declines features and declares the gaps."""
    gaps = {**MemoryDriver.capabilities.gaps, **dict.fromkeys(features, "declined in this test")}

    def decline(self, *_, **__):
        self.need(features[0])

    members = {
        "capabilities": replace(MemoryDriver.capabilities, gaps=gaps),
        **dict.fromkeys(DECLINED_METHODS[features], decline),
    }
    return type("DriverWithGap", (MemoryDriver,), members)


@pytest.mark.parametrize("features", DECLINED_METHODS, ids=lambda features: features[0])
def test_a_driver_that_declines_a_feature_passes_all_other_cases(features):
    driver = memory_driver_without(features)

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
