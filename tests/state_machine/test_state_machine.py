"""The state machines: every driver answers as the oracle does, and every faulty driver is caught."""

from itertools import count

import pytest

from holdfast.connect import connect
from holdfast.testing.drivers.faulty.halts import GapNeverPassed, HaltForgotten, ResumeRunsTwo
from holdfast.testing.drivers.faulty.key_limits import KeyHoldIgnored, KeyLimitsIgnored, KeyPlaceGoesToAnyType
from holdfast.testing.drivers.faulty.offsets import OffsetsByArrival, SwallowsLateOffsets
from holdfast.testing.drivers.state_machine import run_state_machine
from tests.simulation.faulty_drivers import CAUGHT_BY_RANDOM_CALLS


@pytest.mark.parametrize(("domains", "examples"), [(False, 120), (True, 30)])
def test_the_memory_driver_answers_as_the_oracle_does(domains, examples):
    run_state_machine(lambda: connect("memory://", caller_clock=True), domains=domains, max_examples=examples, steps=50)


@pytest.mark.parametrize(("domains", "examples"), [(False, 30), (True, 8)])
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


@pytest.mark.parametrize(("domains", "examples"), [(False, 30), (True, 5)])
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


@pytest.mark.parametrize("driver", [*CAUGHT_BY_RANDOM_CALLS, *CAUGHT_HERE_ONLY], ids=lambda driver: driver.__name__)
def test_a_faulty_driver_is_caught_by_the_state_machine(driver):
    with pytest.raises((AssertionError, LookupError)):
        run_state_machine(lambda: driver(caller_clock=True), max_examples=300, steps=50, shrink=False)


@pytest.mark.parametrize("driver", CAUGHT_BY_CALLS_OF_DOMAINS, ids=lambda driver: driver.__name__)
def test_a_faulty_driver_is_caught_by_the_state_machine_of_domains(driver):
    with pytest.raises(AssertionError):
        run_state_machine(lambda: driver(caller_clock=True), domains=True, max_examples=60, steps=50, shrink=False)
