"""Counting a large space in bounded time. The limits are lowered, so that a small space is a large one."""

import pytest

import holdfast
from holdfast.clock import SECOND, ManualClock
from holdfast.driver import Ack, Fail, JobRecord, State
from holdfast.drivers import estimates
from holdfast.drivers.estimates import Estimate
from holdfast.drivers.requests import Counts

NOW = 1_800_000_000 * SECOND
HOUR = 3600 * SECOND


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path, monkeypatch):
    monkeypatch.setattr(estimates, "COUNT_LIMIT", 50)
    monkeypatch.setattr(estimates, "LANE_LIMIT", 10)
    url = (
        f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else request.getfixturevalue("postgres_database")()
    )
    with holdfast.connect(url, caller_clock=True) as opened:
        yield opened


def jobs(count: int, queue: str = "q", type_: str = "t", **fields) -> list[JobRecord]:
    return [
        JobRecord(id=f"{queue}-{type_}-{number:05}", queue=queue, type=type_, payload=b"{}", created_at=NOW, **fields)
        for number in range(count)
    ]


def fill(store, scale: int) -> None:
    store.enqueue(jobs(40 * scale), now=NOW)
    store.enqueue(jobs(20 * scale, type_="later", run_at=NOW + HOUR), now=NOW)
    store.enqueue(jobs(10 * scale, queue="ordered", domain="d"), now=NOW)
    store.enqueue(jobs(3, queue="small", priority=9), now=NOW - 7)
    store.enqueue(jobs(30 * scale, queue="busy"), now=NOW)
    held = store.reserve(["busy"], limit=30 * scale, lease_for=HOUR, now=NOW)
    ended = len(held) // 3
    store.settle([Ack(one.lease) for one in held[:ended]], now=NOW)
    store.settle([Fail(one.lease, reason="no") for one in held[ended : 2 * ended]], now=NOW)
    store.space("other").enqueue(jobs(50 * scale), now=NOW)


def test_a_sample_of_all_rows_has_the_exact_numbers(store):
    fill(store, 6)
    exact, found = store.counts(now=NOW), store.do(Counts(now=NOW, estimate=True))
    assert found == exact
    assert [row.oldest_ready_age for row in found] == [row.oldest_ready_age for row in exact]
    assert {row.queue for row in found if not row.is_estimate} == {"small"}


def test_what_is_large_is_estimated_and_what_is_small_is_counted(store, monkeypatch):
    monkeypatch.setattr(estimates, "SAMPLE_ROWS", 3000)  # a third to a half of the rows
    fill(store, 60)
    exact = {(row.queue, row.type): row for row in store.counts(now=NOW)}
    found = {(row.queue, row.type): row for row in store.do(Counts(now=NOW, estimate=True))}
    assert found["small", "t"] == exact["small", "t"]
    assert found["small", "t"].oldest_ready_age == 7
    for pair, word in (
        (("q", "t"), "ready"),
        (("q", "later"), "scheduled"),
        (("ordered", "t"), "ready"),
        (("busy", "t"), "inflight"),
        (("busy", "t"), "done"),
        (("busy", "t"), "dead"),
    ):
        wanted, got = getattr(exact[pair], word), getattr(found[pair], word)
        assert wanted / 3 <= got <= 3 * wanted, (pair, word, wanted, got)


def test_states_and_queues_that_were_not_asked_for_are_left_out(store):
    fill(store, 6)
    for states in ((State.READY,), (State.INFLIGHT, State.DEAD), (State.DONE,)):
        for queues in (None, ["busy", "small"]):
            wanted = store.do(Counts(queues=queues, states=states, now=NOW))
            assert store.do(Counts(queues=queues, states=states, now=NOW, estimate=True)) == wanted


def test_a_store_without_estimates_is_counted():
    with holdfast.connect("memory://", clock=ManualClock(NOW)) as store:
        store.enqueue(jobs(3))
        assert [row.ready for row in store.do(Counts(estimate=True))] == [3]


def test_a_count_that_was_cut_is_never_below_what_was_counted():
    estimate = Estimate(scale=10.0)
    estimate.add_sample([("q", "t", "ready", 2, 5)])
    estimate.add_lane(("q", "t"), 101, 9, later=3, parked=1, is_due_cut=True, is_later_cut=False)
    assert list(estimate.rows(["ready", "scheduled"])) == [(("q", "t"), {"ready": 102, "scheduled": 2}, True)]
    assert estimate.ages == {("q", "t"): 9}
