"""A slot without Spark: what it does after the stop command of its run."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast.spark.execution.run_spec import RunSpec, send_stop
from holdfast.spark.execution.slot import Slot
from tests.spark.conftest import OPTIONS

AT_ONCE = replace(OPTIONS, processes=1, drain=timedelta())


@pytest.fixture
def stuck(app):
    """A handler that never ends."""
    return app.handler("stuck")(lambda _: time.sleep(600))


@pytest.fixture
def spec(app, stuck):
    return RunSpec(run="r", url=app.url, space=app.space, catalogue=app.catalogue, options=AT_ONCE)


def endings(app):
    return [row.ending for row in app.driver.ledger().items]


def test_a_slot_that_starts_after_the_stop_reserves_nothing(app, stuck, spec):
    send_stop(app.driver, "r")
    answer = stuck.enqueue(None)
    with Slot(spec, 0, ["r/0/0/0"], app.driver) as slot:
        list(slot.outcomes())
    assert endings(app) == []
    assert app.client.get(answer.id).attempts == 0


def test_no_other_slot_reserves_a_job_that_was_released_at_a_stop(app, stuck, spec):
    """Spark may kill the other slot while it holds the job."""
    with ThreadPoolExecutor() as threads, ExitStack() as stack:
        slots = [stack.enter_context(Slot(spec, 0, [f"r/0/0/{number}"], app.driver)) for number in range(2)]
        outcomes = [threads.submit(list, slots[0].outcomes())]
        time.sleep(0.25)  # the two slots read commands at different times
        outcomes.append(threads.submit(list, slots[1].outcomes()))
        answer = stuck.enqueue(None)
        while app.client.get(answer.id).state != "inflight":
            time.sleep(0.01)
        send_stop(app.driver, "r")
        for each in outcomes:
            each.result(timeout=30)
    assert endings(app) == ["released"]
    assert app.client.get(answer.id).attempts == 0


def test_a_copy_without_jobs_waits_until_the_other_copy_has_released_its_jobs(app, stuck, spec):
    """When one copy is done, Spark kills the other at once."""
    answer = stuck.enqueue(None)
    with ThreadPoolExecutor() as threads, Slot(spec, 0, ["r/0/0/0"], app.driver) as first:
        while not first._worker.held:
            time.sleep(0.01)
        first._report_status()
        send_stop(app.driver, "r")
        with Slot(spec, 0, ["r/0/0/0", "r/0/0/1"], app.driver) as second:
            copy = threads.submit(list, second.outcomes())
            with pytest.raises(TimeoutError):
                copy.result(timeout=2.5)  # it has seen the stop for long enough
            list(first.outcomes())
            copy.result(timeout=30)
    assert endings(app) == ["released"]
    assert app.client.get(answer.id).attempts == 0
