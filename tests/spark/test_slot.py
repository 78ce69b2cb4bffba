"""A slot by itself, without Spark around it: what it does with the orders of its run."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast.clock import DAY
from holdfast.model.registry import Change
from holdfast.spark.execution.slot import RUN, STOP, Order, Slot
from tests.spark.conftest import OPTIONS

AT_ONCE = replace(OPTIONS, processes=1, drain=timedelta())


@pytest.fixture
def stuck(app):
    """A job that never ends."""
    return app.handler("stuck")(lambda _: time.sleep(600))


@pytest.fixture
def order(app, stuck):
    return Order(run="r", url=app.url, space=app.space, catalogue=app.catalogue, options=AT_ONCE)


def stop(app):
    app.driver.write([Change(kind=RUN, key="r", value=STOP, ttl=DAY)])


def endings(app):
    return [row.ending for row in app.driver.ledger().items]


def test_a_slot_that_begins_after_the_stop_reserves_nothing(app, stuck, order):
    stop(app)
    answer = stuck.enqueue(None)
    with Slot(order, 0, ["r/0/0/0"], app.driver) as slot:
        list(slot.outcomes())
    assert endings(app) == []
    assert app.client.get(answer.id).attempts == 0


def test_what_a_slot_gives_back_at_a_stop_no_other_slot_takes(app, stuck, order):
    """Spark may be about to end the other one: it would take the job with it."""
    with ThreadPoolExecutor() as threads, ExitStack() as stack:
        slots = [stack.enter_context(Slot(order, 0, [f"r/0/0/{number}"], app.driver)) for number in range(2)]
        told = [threads.submit(list, slots[0].outcomes())]
        time.sleep(0.25)  # the two look for orders at different moments
        told.append(threads.submit(list, slots[1].outcomes()))
        answer = stuck.enqueue(None)
        while app.client.get(answer.id).state != "inflight":
            time.sleep(0.01)
        stop(app)
        for one in told:
            one.result(timeout=30)
    assert endings(app) == ["released"]
    assert app.client.get(answer.id).attempts == 0


def test_a_copy_without_jobs_is_not_done_before_the_other_has_let_go_of_its_own(app, stuck, order):
    """When one copy is done, Spark ends the other at once."""
    answer = stuck.enqueue(None)
    with ThreadPoolExecutor() as threads, Slot(order, 0, ["r/0/0/0"], app.driver) as first:
        while not first._worker.held:
            time.sleep(0.01)
        first._tell()
        stop(app)
        with Slot(order, 0, ["r/0/0/0", "r/0/0/1"], app.driver) as second:
            copy = threads.submit(list, second.outcomes())
            with pytest.raises(TimeoutError):
                copy.result(timeout=2.5)  # it has known of the stop for long enough
            list(first.outcomes())
            copy.result(timeout=30)
    assert endings(app) == ["released"]
    assert app.client.get(answer.id).attempts == 0
