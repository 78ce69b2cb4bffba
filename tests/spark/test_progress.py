"""How a run stands, from what a store counts and what slots tell."""

import msgspec
import pytest

import holdfast
import holdfast.driver
from holdfast.app import Holdfast
from holdfast.clock import MINUTE
from holdfast.model.registry import Change
from holdfast.spark.execution import progress
from holdfast.spark.execution.progress import Gauge
from holdfast.spark.execution.slot import PRESENCE, Order, Standing
from holdfast.worker.options import WorkerOptions


@pytest.fixture
def store():
    with holdfast.connect("memory://") as made:
        yield made


@pytest.fixture
def gauge(store, monkeypatch):
    """Of a run over ten jobs. The store has counted them, and rests."""
    monkeypatch.setattr(progress, "RESTS", 1e9)
    app = Holdfast(driver=store)
    handle = app.handler("t")(lambda payload: payload)
    app.client.enqueue([handle.request(number) for number in range(10)])
    return Gauge(store, Order(run="r", url="", space="main", catalogue=app.catalogue, options=WorkerOptions()))


def tell(store, slot, **standing):
    value = msgspec.json.encode(Standing(**standing))
    store.write([Change(kind=PRESENCE, key=f"r/1/{slot}/0", value=value, ttl=MINUTE)])


def numbers(seen):
    return seen.ready + seen.inflight, seen.done, seen.dead


def test_between_two_counts_the_slots_say_what_has_ended(store, gauge):
    assert numbers(gauge.look()) == (10, 0, 0)
    tell(store, 0, settled={"acked": 3, "retried": 5}, held=2, executor="host:17")
    tell(store, 1, settled={"dead": 1, "rejected": 1})
    seen = gauge.look()
    assert numbers(seen) == (5, 3, 2)
    assert seen.settled["retried"] == 5
    assert [(slot.executor, slot.held) for slot in seen.slots] == [("host:17", 2), ("", 0)]
    assert seen.busy == 1
    assert seen.rate > 0


def test_slots_that_tell_late_take_nothing_back(store, gauge):
    for one in store.reserve(["default"], limit=5, lease_for=MINUTE):
        holdfast.driver.ack(store, one.lease)
    tell(store, 0, settled={"acked": 2})
    assert numbers(gauge.look()) == (8, 2, 0)
    assert numbers(gauge.look(last=True)) == (5, 5, 0)
    tell(store, 0, settled={"acked": 4})
    assert numbers(gauge.look()) == (5, 5, 0)


def test_a_slot_that_ended_is_not_shown_and_what_it_did_is(store, gauge):
    tell(store, 0, settled={"acked": 4}, alive=False)
    seen = gauge.look()
    assert (seen.slots, seen.done) == ((), 4)


def test_the_last_look_is_exact(store, gauge):
    taken = store.reserve(["default"], limit=2, lease_for=MINUTE)
    holdfast.driver.ack(store, taken[0].lease)
    assert numbers(gauge.look()) == (10, 0, 0)
    seen = gauge.look(last=True)
    assert (seen.ready, seen.inflight, seen.done, seen.dead) == (8, 1, 1, 0)


def test_slots_of_other_runs_and_jobs_of_other_types_do_not_count(store, gauge):
    store.write([Change(kind=PRESENCE, key="rest/1/0/0", value=b'{"settled":{"acked":5}}', ttl=MINUTE)])
    holdfast.Client(store).enqueue([holdfast.JobRequest(type="other")])
    assert numbers(gauge.look(last=True)) == (10, 0, 0)


def test_rows_that_slots_have_not_stored_yet_are_as_good_as_ready(store, gauge):
    whole = Gauge(store, gauge._order, rows=100)
    assert numbers(whole.look()) == (100, 0, 0)
    tell(store, 0, settled={"acked": 30})
    assert numbers(whole.look()) == (70, 30, 0)
    for one in store.reserve(["default"], limit=10, lease_for=MINUTE):
        holdfast.driver.ack(store, one.lease)
    tell(store, 0, settled={"acked": 10})
    assert numbers(whole.look(last=True)) == (0, 10, 0)  # the others were equal to these
