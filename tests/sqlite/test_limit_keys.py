"""Parked jobs: what a reserve reads, bounds of one call, and rows that are forgotten again."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.clock import DAY, HOUR, SECOND, ManualClock
from holdfast.drivers.requests import Configure, Inspect, Reserve, Trim
from holdfast.drivers.sqlite import limit_keys
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Retry
from tests.sqlite.conftest import NOW

YEAR = 365 * DAY


def rows(store, query: str) -> list[tuple]:
    return store.engine._database.write(lambda connection: connection.execute(query).fetchall())


def reserve_ids(store, limit: int = 10, now: int = NOW, **options) -> list[str]:
    return [
        one.job.id
        for one in store.do(Reserve(queues=["q"], limit=limit, lease_for=HOUR, now=now, **options)).reservations
    ]


def count_steps(store, call) -> int:
    """Return how many steps SQLite's machine takes for a call."""
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    store.engine._database.write(lambda connection: connection.set_progress_handler(count, 1))
    call()
    store.engine._database.write(lambda connection: connection.set_progress_handler(None, 0))
    return steps


def test_parked_jobs_are_not_read_again(path, job):
    steps = []
    for backlog in (20, 2000):
        store = holdfast.connect(f"sqlite:///{path}-{backlog}", caller_clock=True)
        store.do(Configure(queue="q", settings=QueueSettings(key_max_inflight=1)))
        store.enqueue([job(limit_key="a") for _ in range(backlog)], now=NOW)
        assert len(reserve_ids(store)) == 1
        assert reserve_ids(store) == []
        store.enqueue([job(limit_key="b"), job()], now=NOW)
        steps.append(count_steps(store, lambda store=store: reserve_ids(store)))
        store.close()
    assert steps[0] == steps[1] > 0


def test_without_key_limits_a_limit_key_needs_no_statement_of_its_own(store, job):
    store.enqueue([job(limit_key="a") for _ in range(5)], now=NOW)
    statements: list[str] = []
    store.engine._database.write(lambda connection: connection.set_trace_callback(statements.append))
    reservations = store.reserve(["q"], limit=5, lease_for=HOUR, now=NOW)
    store.settle([Ack(one.lease) for one in reservations[:4]], now=NOW)
    store.engine._database.write(lambda connection: connection.set_trace_callback(None))
    about_keys = [one for one in statements if "limit_keys" in one]
    assert len(about_keys) == 1  # the acks wake keys, in one statement that finds none


def test_one_call_parks_a_bounded_number_of_jobs_and_a_wait_returns_meanwhile(path, job, monkeypatch):
    monkeypatch.setattr(limit_keys, "PARK_LIMIT", 10)
    clock = ManualClock(NOW)
    store = holdfast.connect(f"sqlite:///{path}", clock=clock)
    store.do(Configure(queue="q", settings=QueueSettings(key_max_inflight=1)))
    store.enqueue([job(limit_key="a") for _ in range(35)])
    store.enqueue([job(id="behind", type="u")])
    assert len(store.reserve(["q"], types=["t"], limit=1, lease_for=HOUR)) == 1
    for parked in (10, 20, 30, 34):
        assert store.reserve(["q"], types=["t"], limit=5, lease_for=HOUR) == []
        assert rows(store, "SELECT count(*) FROM holdfast_jobs WHERE parked_from IS NOT NULL") == [(parked,)]
        if parked < 34:
            store.wait(["q"], timeout=60)  # returns at once
    assert [one.job.id for one in store.reserve(["q"], limit=5, lease_for=HOUR)] == ["behind"]
    store.close()


def test_more_full_keys_than_one_pick_passes_over_do_not_change_the_order(store, job, monkeypatch):
    monkeypatch.setattr("holdfast.drivers.sqlite.reserve.PASS_LIMIT", 3)
    store.do(Configure(queue="q", settings=QueueSettings(key_max_inflight=1)))
    store.enqueue([job(limit_key=key) for key in "abcdef"], now=NOW)
    assert len(reserve_ids(store)) == 6
    store.enqueue([job(limit_key=key) for key in "abcdef"], now=NOW + 1)
    store.enqueue([job(id="first")], now=NOW + 2)
    store.enqueue([job(id="second", type="u")], now=NOW + 3)
    assert reserve_ids(store, limit=1, now=NOW + 4) == ["first"]


def test_trim_forgets_keys_without_a_past_and_queues_without_keys(store, job):
    store.do(Configure(queue="q", settings=QueueSettings(key_rate=1)))
    store.enqueue([job(limit_key=key) for key in "aab"], now=NOW)
    [first, _] = store.reserve(["q"], limit=9, lease_for=HOUR, now=NOW)
    store.settle([Retry(first.lease, delay=DAY, hold_key=True)], now=NOW)
    store.do(Trim(now=NOW + SECOND))
    assert rows(store, "SELECT key FROM holdfast_limit_keys ORDER BY 1") == [("a",), ("b",)]
    store.do(Trim(now=NOW + 2 * SECOND))
    assert rows(store, "SELECT key FROM holdfast_limit_keys") == [("a",)]
    assert rows(store, "SELECT keyed FROM holdfast_settings") == [(1,)]
    store.do(Configure(queue="q", settings=QueueSettings()))
    store.do(Trim(now=NOW + 2 * SECOND))
    assert rows(store, "SELECT keyed FROM holdfast_settings") == [(1,)]  # jobs are parked
    assert len(reserve_ids(store, now=NOW + 2 * SECOND)) == 1
    store.do(Trim(now=NOW + 2 * SECOND))
    assert rows(store, "SELECT keyed FROM holdfast_settings") == [(0,)]
    assert rows(store, "SELECT * FROM holdfast_limit_keys") == []


def test_repair_clock_returns_parked_jobs_and_ends_holds_of_the_wrong_time(path, job):
    clock = ManualClock(NOW)
    store = holdfast.connect(f"sqlite:///{path}", clock=clock)
    store.do(Configure(queue="q", settings=QueueSettings(key_rate=1)))
    store.enqueue([job(id="older", limit_key="a"), job(id="waiting", limit_key="a")])
    clock.advance(YEAR)
    store.enqueue([job(id="newer", limit_key="a")])
    [first] = store.reserve(["q"], limit=9, lease_for=HOUR)
    store.settle([Retry(first.lease, delay=HOUR, hold_key=True)])
    assert store.reserve(["q"], limit=9, lease_for=HOUR) == []
    clock.advance(-YEAR)
    assert store.reserve(["q"], limit=9, lease_for=HOUR) == []
    assert store.engine.repair_clock() == 3  # the retried job, the newer one, and the key
    assert store.do(Inspect(job_ids=["waiting"]))["waiting"].available_at == NOW
    clock.advance(3 * SECOND)
    assert [one.job.id for one in store.reserve(["q"], limit=9, lease_for=HOUR)] == ["older"]
    store.close()


@pytest.mark.parametrize("limit", [1, 3])
def test_a_raised_limit_lets_every_waiting_job_run_in_order(store, job, limit):
    store.do(Configure(queue="q", settings=QueueSettings(key_max_inflight=1)))
    jobs = [job(limit_key="a", priority=number % 2) for number in range(10)]
    store.enqueue(jobs, now=NOW)
    order = [one.id for one in sorted(jobs, key=lambda one: -one.priority)]
    assert reserve_ids(store) == order[:1]
    assert reserve_ids(store) == []
    store.do(Configure(queue="q", settings=QueueSettings()))
    seen = []
    while found := reserve_ids(store, limit=limit):
        seen += found
    assert seen == order[1:]
