"""The state machines: every driver answers as the oracle does, and every faulty driver is caught."""

from itertools import count

import pytest

from holdfast.connect import connect
from tests.drivers.faulty.faulty_driver import open_faulty
from tests.drivers.faulty.halts import GapNeverPassed, HaltForgotten, ResumeRunsTwo
from tests.drivers.faulty.key_limits import KeyHoldIgnored, KeyLimitsIgnored, KeyPlaceGoesToAnyType
from tests.drivers.faulty.offsets import OffsetsByArrival, SwallowsLateOffsets
from tests.drivers.state_machine import run_state_machine
from tests.simulation.faulty_drivers import CAUGHT_BY_RANDOM_CALLS


def examples(short: tuple[int, int], long: tuple[int, int]) -> pytest.MarkDecorator:
    """Parametrise a test by machine and number of examples: without domains, and with domains."""
    few, many = (list(zip((False, True), counts, strict=True)) for counts in (short, long))
    cases = [*few, *(pytest.param(*case, marks=pytest.mark.long) for case in many)]
    return pytest.mark.parametrize(("domains", "examples"), cases)


@examples((30, 10), long=(120, 30))
def test_the_memory_driver_answers_as_the_oracle_does(domains, examples):
    run_state_machine(lambda: connect("memory://", caller_clock=True), domains=domains, max_examples=examples, steps=50)


@examples((8, 3), long=(30, 8))
def test_the_sqlite_driver_answers_as_the_oracle_does(tmp_path, domains, examples):
    store = connect(f"sqlite:///{tmp_path}/machine.db", caller_clock=True)
    numbers = count()
    try:
        # One file for all examples: a new space is as empty as a new store and opens much faster.
        run_state_machine(
            lambda: store.space(f"example-{next(numbers)}"), domains=domains, max_examples=examples, steps=40
        )
    finally:
        store.close()


@examples((5, 2), long=(30, 5))
def test_the_postgres_driver_answers_as_the_oracle_does(postgres_database, domains, examples):
    store = connect(postgres_database(), caller_clock=True)
    numbers = count()
    try:
        run_state_machine(
            lambda: store.space(f"example-{next(numbers)}"), domains=domains, max_examples=examples, steps=40
        )
    finally:
        store.close()


# The simulation has no limit keys.
CAUGHT_HERE_ONLY = (KeyHoldIgnored, KeyLimitsIgnored, KeyPlaceGoesToAnyType)
CAUGHT_BY_CALLS_OF_DOMAINS = (GapNeverPassed, HaltForgotten, OffsetsByArrival, ResumeRunsTwo, SwallowsLateOffsets)


SLOW_CATCHES = (KeyHoldIgnored, KeyLimitsIgnored)  # hundreds of examples; the conformance suite catches them, too


@pytest.mark.parametrize(
    "driver",
    [
        pytest.param(driver, marks=pytest.mark.long if driver in SLOW_CATCHES else (), id=driver.__name__)
        for driver in (*CAUGHT_BY_RANDOM_CALLS, *CAUGHT_HERE_ONLY)
    ],
)
def test_a_faulty_driver_is_caught_by_the_state_machine(driver):
    """It ends with the first difference. Which examples are drawn also depends on the modules that are loaded."""
    with pytest.raises((AssertionError, LookupError)):
        run_state_machine(lambda: open_faulty(driver), max_examples=3000, steps=50, shrink=False)


@pytest.mark.parametrize("driver", CAUGHT_BY_CALLS_OF_DOMAINS, ids=lambda driver: driver.__name__)
def test_a_faulty_driver_is_caught_by_the_state_machine_of_domains(driver):
    with pytest.raises(AssertionError):
        run_state_machine(lambda: open_faulty(driver), domains=True, max_examples=600, steps=50, shrink=False)
