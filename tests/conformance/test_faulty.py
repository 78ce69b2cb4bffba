"""The exam is examined: every driver with a bug fails at least one case that the honest one passes."""

import pytest

from holdfast.drivers.memory import MemoryDriver
from holdfast.errors import HoldfastError
from holdfast.testing.drivers.conformance import Outcome, cases, examine
from holdfast.testing.drivers.faulty import FAULTY, Faulty, FaultyHarness


@pytest.fixture(scope="module")
def passed():
    """The cases that the memory driver passes, quick ones first; the others prove nothing of a bug."""
    verdicts = [
        verdict for verdict in examine(FaultyHarness(MemoryDriver), cases()) if verdict.outcome is Outcome.PASSED
    ]
    return [verdict.case for verdict in sorted(verdicts, key=lambda verdict: verdict.seconds)]


@pytest.mark.parametrize("driver", FAULTY, ids=lambda driver: driver.__name__)
def test_the_bug_is_caught(driver, passed):
    harness = FaultyHarness(driver)
    for case in passed:
        try:
            case.run(harness)
        except (AssertionError, HoldfastError) as wrong:  # anything else is a second bug, and fails this test
            print(f"{driver.__name__}: {driver.__doc__} Caught by {case.verb}: {case.name} ({wrong})")
            return
    pytest.fail(f"no case noticed: {driver.__doc__}")


def test_what_the_bugs_are_put_into_has_none(passed):
    harness = FaultyHarness(Faulty)
    for case in passed:
        case.run(harness)


def test_nearly_every_case_is_sat(passed):
    assert len(passed) > 0.95 * len(cases())


def test_every_bug_is_told_in_one_line():
    assert [driver for driver in FAULTY if not driver.__doc__ or "\n" in driver.__doc__] == []


def test_no_bug_is_listed_twice():
    assert len({driver.__doc__ for driver in FAULTY}) == len(FAULTY) >= 28
