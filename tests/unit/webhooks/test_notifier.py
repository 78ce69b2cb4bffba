"""The notifier: whom it tells of which work, and how often."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from holdfast import connect
from holdfast.clock import SECOND, ManualClock
from holdfast.driver import JobRecord, Release
from holdfast.webhooks import notifier as module
from holdfast.webhooks.delivery import NOTIFICATION, read_delivery
from holdfast.webhooks.notifier import Notifier, choose
from holdfast.webhooks.subscription import DeliveryMode, Subscription


@pytest.fixture
def clock(monkeypatch):
    """One clock for the store and for intervals."""
    clock = ManualClock()
    monkeypatch.setattr(module, "monotonic", lambda: clock.now() / SECOND)
    monkeypatch.setattr("holdfast.webhooks.turn.monotonic", lambda: clock.now() / SECOND)
    return clock


@pytest.fixture
def store(clock):
    with connect("memory://", clock=clock) as opened:
        yield opened


def subscription(id_, **fields):
    values = {
        "subject": "w",
        "callback_url": f"https://{id_}.example.org/",
        "event_types": ("t",),
        "queues": ("q",),
        "mode": DeliveryMode.FANOUT,
        "group": None,
        "min_interval_seconds": 10.0,
        "ttl_seconds": 3600.0,
        "claim_url": "https://queue.example.org/v1/tasks/claim",
        **fields,
    }
    return Subscription(id=id_, **values)


def subscribe(store, *subscriptions):
    store.write([one.change(version=0) for one in subscriptions])


def enqueue(store, *ids, **fields):
    common = {"type": "t", "queue": "q", "payload": b"1", "created_at": 1, **fields}
    store.enqueue([JobRecord(id=id_, **common) for id_ in ids])


class Look:
    """Looks, and returns who was notified by it."""

    def __init__(self, store, clock, name="one"):
        self._notifier = Notifier(store, space="main", name=name, signer=None, clock=clock)
        self._store, self._clock = store, clock
        self._seen: set[str] = set()

    def bodies(self, after=2 * SECOND):
        self._clock.advance(after)
        self._notifier.notify()
        new = [one for one in self._store.find(limit=1000) if one.type == NOTIFICATION and one.id not in self._seen]
        self._seen |= {one.id for one in new}
        return [json.loads(read_delivery(one).body) for one in new]

    def ids(self, after=2 * SECOND):
        return sorted(body["subscriptionId"] for body in self.bodies(after))


@pytest.fixture
def look(store, clock):
    return Look(store, clock)


def test_fanout_tells_every_subscription_of_the_command_and_queue(store, look):
    subscribe(store, subscription("a"), subscription("b"), subscription("c", event_types=("u",)))
    subscribe(store, subscription("d", queues=("other",)))
    assert look.ids() == []
    enqueue(store, "1", "2")
    bodies = look.bodies()
    assert sorted(body["subscriptionId"] for body in bodies) == ["a", "b"]
    assert {name: bodies[0][name] for name in ("eventType", "queue", "claimUrl")} == {
        "eventType": "t",
        "queue": "q",
        "claimUrl": "https://queue.example.org/v1/tasks/claim",
    }


def test_a_subscription_is_told_again_after_its_interval_while_work_waits(store, look):
    subscribe(store, subscription("a"), subscription("b", min_interval_seconds=3.0))
    enqueue(store, "1")
    told = Counter(id_ for _ in range(15) for id_ in look.ids())  # 30 seconds
    assert 2 <= told["a"] <= 4
    assert 6 <= told["b"] <= 11


def test_delayed_released_and_expired_tasks_are_told_of_when_they_are_due(store, look):
    subscribe(store, subscription("a", min_interval_seconds=1.0))
    enqueue(store, "later", run_at=store_now(store) + 60 * SECOND)
    assert look.ids() == []
    assert look.ids(after=60 * SECOND) == ["a"]
    [one] = store.reserve(["q"], limit=1, lease_for=10 * SECOND)
    assert look.ids() == []
    store.settle([Release(one.lease)])
    assert look.ids() == ["a"]
    store.reserve(["q"], limit=1, lease_for=10 * SECOND)
    assert look.ids() == []
    look.bodies(after=10 * SECOND)
    store.reap()
    assert look.ids() == ["a"]


def store_now(store):
    enqueue(store, "probe", queue="probe")
    return store.inspect(["probe"])["probe"].available_at


def test_a_group_is_told_once_and_its_members_take_turns(store, look):
    group = {"mode": DeliveryMode.GROUP, "min_interval_seconds": 1.0}
    subscribe(store, *(subscription(f"g{n}", group="g", **group) for n in range(3)))
    subscribe(store, subscription("h0", group="h", **group))
    enqueue(store, "1")
    looks = [look.ids() for _ in range(40)]
    assert all(len([id_ for id_ in ids if id_[0] == "g"]) == 1 for ids in looks)
    assert all("h0" in ids for ids in looks)
    assert {id_ for ids in looks for id_ in ids} == {"g0", "g1", "g2", "h0"}


def test_hash_chooses_one_subscription_per_task_always_the_same_one(store, look):
    members = [subscription(f"s{n}", mode=DeliveryMode.HASH, min_interval_seconds=1.0) for n in range(5)]
    subscribe(store, *members)
    enqueue(store, "task-7")
    chosen = {tuple(look.ids()) for _ in range(5)}
    assert chosen == {(choose(members, "t", "task-7").id,)}
    tasks = [f"task-{n}" for n in range(500)]
    before = {task: choose(members, "t", task).id for task in tasks}
    assert min(Counter(before.values()).values()) > 50
    after = {task: choose(members[:-1], "t", task).id for task in tasks}
    assert {task for task in tasks if before[task] != after[task]} == {task for task in tasks if before[task] == "s4"}


def test_a_subscription_ends_when_its_time_is_over(store, look):
    subscribe(store, subscription("a", ttl_seconds=5.0, min_interval_seconds=1.0))
    enqueue(store, "1")
    assert look.ids() == ["a"]
    assert look.ids(after=5 * SECOND) == []


def test_two_processes_tell_a_subscription_once(store, clock, look):
    other = Look(store, clock, "two")
    subscribe(store, subscription("a"))
    enqueue(store, "1")
    assert look.ids() == ["a"]
    other.bodies(after=0)
    assert len([one for one in store.find(limit=100) if one.type == NOTIFICATION]) == 1


def test_many_delayed_tasks_do_not_hide_the_due_ones_from_hash(store, look, monkeypatch):
    monkeypatch.setattr(module, "PAGE_TASKS", 2)
    members = [subscription(f"s{n}", mode=DeliveryMode.HASH, min_interval_seconds=1.0) for n in range(3)]
    subscribe(store, *members)
    enqueue(store, *(f"a{n}" for n in range(5)), run_at=store_now(store) + 3600 * SECOND)
    enqueue(store, "b")
    assert [(body["subscriptionId"], body["taskId"]) for body in look.bodies()] == [(choose(members, "t", "b").id, "b")]
    monkeypatch.setattr(module, "MAX_PAGES", 1)
    [body] = look.bodies()
    assert (body["subscriptionId"], "taskId" in body) == (choose(members, "t", "").id, False)
