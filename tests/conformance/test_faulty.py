"""The suite finds every known bug: each faulty driver fails at least one case that the memory driver passes."""

import pytest

from holdfast.drivers.memory import MemoryDriver
from holdfast.errors import HoldfastError
from holdfast.testing.drivers.conformance import CaseStatus, cases, run_cases
from holdfast.testing.drivers.faulty import FAULTY_DRIVERS, FaultyDriver, FaultyHarness


@pytest.fixture(scope="module")
def passed():
    """The cases that the memory driver passes, fastest first."""
    results = [
        result for result in run_cases(FaultyHarness(MemoryDriver), cases()) if result.status is CaseStatus.PASSED
    ]
    return [result.case for result in sorted(results, key=lambda result: result.seconds)]


@pytest.mark.parametrize("driver", FAULTY_DRIVERS, ids=lambda driver: driver.__name__)
def test_the_bug_is_caught(driver, passed):
    harness = FaultyHarness(driver)
    for case in passed:
        try:
            case.run(harness)
        except (AssertionError, HoldfastError) as error:
            print(f"{driver.__name__}: {driver.__doc__} Caught by {case.topic}: {case.name} ({error})")
            return
        except Exception as error:  # this case cannot go on with such a driver: another one must catch it
            print(f"{driver.__name__}: {case.topic}: {case.name} ended with {type(error).__name__}: {error}")
    pytest.fail(f"no case caught: {driver.__doc__}")


def test_the_base_of_the_faulty_drivers_has_no_bug(passed):
    harness = FaultyHarness(FaultyDriver)
    for case in passed:
        case.run(harness)


def test_the_memory_driver_passes_nearly_every_case(passed):
    assert len(passed) > 0.95 * len(cases())


def test_every_bug_is_described_in_one_line():
    assert [driver for driver in FAULTY_DRIVERS if not driver.__doc__ or "\n" in driver.__doc__] == []


def test_no_bug_is_listed_twice():
    assert len({driver.__doc__ for driver in FAULTY_DRIVERS}) == len(FAULTY_DRIVERS) >= 100
