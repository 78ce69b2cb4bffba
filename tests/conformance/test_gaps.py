"""A store that declines features refuses what needs them, skips the cases of these features, and passes all others."""

import pytest

from holdfast.drivers.capabilities import Feature
from holdfast.testing.drivers.conformance import cases
from holdfast.testing.drivers.harness import CaseSkipped, Harness
from tests.in_memory import InMemory

DECLINED = (
    (Feature.LEDGER,),
    (Feature.REGISTRY,),
    (Feature.ENQUEUE_WRITES,),
    (Feature.LIMITS,),
    (Feature.SPACES,),
    (Feature.KEY_LIMITS, Feature.OFFSETS, Feature.HALT, Feature.GAPS),
)


@pytest.mark.parametrize("features", DECLINED, ids=lambda features: features[0])
def test_a_store_that_declines_a_feature_passes_all_other_cases(features):
    class HarnessWithGap(Harness):
        def open(self, *, space, caller_clock):
            return InMemory(declined=features, space=space, caller_clock=caller_clock)

    harness = HarnessWithGap()
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
