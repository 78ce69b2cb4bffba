"""The suite finds every known bug: each faulty driver fails at least one case that a driver without a bug passes."""

import pytest

from holdfast.errors import HoldfastError
from holdfast.testing.drivers.conformance import CaseStatus, cases, run_cases
from tests.drivers.faulty import FAULTY_DRIVERS, FaultyDriver, FaultyHarness

pytestmark = pytest.mark.xdist_group("faulty")  # the cases without a bug run once

SLOW_CATCHES = {  # bugs that only a slow case finds, or that make many cases slow: the topic to begin with
    "DedupeIsNotAtomic": "threads",
    "KeyTakenOverAfterWait": "threads",
    "LeasedEnqueueBegins": "enqueue_leased",
    "LeasedEnqueueForgetsSignatures": "enqueue_leased",
    "LeasedEnqueueIgnoresLimits": "enqueue_leased",
    "LeasedEnqueueBeginsLastAttempts": "enqueue_leased",
    "ReserveIsNotAtomic": "threads",
    "ReserveReapsWithoutLimit": "reserve",
    "WaitForgetsDueTimes": "wait",
    "WaitIgnoresRates": "wait",
    "WriteIsNotAtomic": "threads",
}


@pytest.fixture(scope="module")
def results():
    """How the cases end on the base of the faulty drivers, which has no bug; fastest first."""
    return sorted(run_cases(FaultyHarness(FaultyDriver), cases()), key=lambda result: result.seconds)


@pytest.fixture(scope="module")
def passed(results):
    return [result.case for result in results if result.status is CaseStatus.PASSED]


@pytest.mark.parametrize("driver", FAULTY_DRIVERS, ids=lambda driver: driver.__name__)
def test_the_bug_is_caught(driver, passed):
    harness = FaultyHarness(driver)
    harness.patience_seconds = 6.0  # of a wait that a bug makes endless; without a bug it takes a second
    for case in sorted(passed, key=lambda case: case.topic != SLOW_CATCHES.get(driver.__name__)):
        try:
            case.run(harness)
        except (AssertionError, HoldfastError) as error:
            print(f"{driver.__name__}: {driver.__doc__} Caught by {case.topic}: {case.name} ({error})")
            return
        except Exception as error:  # this case cannot go on with such a driver: another one must catch it
            print(f"{driver.__name__}: {case.topic}: {case.name} ended with {type(error).__name__}: {error}")
    pytest.fail(f"no case caught: {driver.__doc__}")


def test_the_base_of_the_faulty_drivers_has_no_bug(results):
    assert [result for result in results if result.status is CaseStatus.FAILED] == []


def test_the_base_passes_nearly_every_case(passed):
    assert len(passed) > 0.95 * len(cases())


def test_every_slow_catch_names_a_bug_and_a_topic():
    assert SLOW_CATCHES.keys() <= {driver.__name__ for driver in FAULTY_DRIVERS}
    assert set(SLOW_CATCHES.values()) <= {case.topic for case in cases()}


def test_every_bug_is_described_in_one_line():
    assert [driver for driver in FAULTY_DRIVERS if not driver.__doc__ or "\n" in driver.__doc__] == []


def test_no_bug_is_listed_twice():
    assert len({driver.__doc__ for driver in FAULTY_DRIVERS}) == len(FAULTY_DRIVERS) >= 100
