"""The notifier: whom it tells of which work, and how often."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast import connect
from holdfast.clock import SECOND, ManualClock
from holdfast.driver import JobRecord, Release
from holdfast.drivers.requests import Inspect, Write
from holdfast.webhooks import notifier as module
from holdfast.webhooks.attempt import delivery_rules
from holdfast.webhooks.notifier import Notifier, choose
from holdfast.webhooks.secrets import WebhookSecrets
from holdfast.webhooks.senders import Senders
from holdfast.webhooks.subscription import DeliveryMode, Subscription
from tests.waiting import wait_until
from tests.webhook_receiver import SECRET, receiving


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


@pytest.fixture
def down():
    """The subscriptions whose receiver answers 503."""
    return set()


@pytest.fixture
def receiver(down):
    with receiving(lambda one: 503 if one.path[1:] in down else 204) as running:
        yield running


@pytest.fixture
def subscription(receiver):
    def make(id_, **fields):
        values = {
            "subject": "w",
            "callback_url": f"{receiver.url}/{id_}",
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

    return make


def subscribe(store, *subscriptions):
    store.do(Write(changes=[one.change(version=0) for one in subscriptions]))


def enqueue(store, *ids, **fields):
    common = {"type": "t", "queue": "q", "payload": b"1", "created_at": 1, **fields}
    store.enqueue([JobRecord(id=id_, **common) for id_ in ids])


class Look:
    """Looks, and returns who was notified by it."""

    def __init__(self, store, clock, receiver, name="one"):
        self._senders = Senders(threads=2)
        self._notifier = Notifier(
            store,
            space="main",
            name=name,
            secrets=WebhookSecrets(receiver.settings, space="main"),
            rules=delivery_rules(receiver.settings),
            senders=self._senders,
            clock=clock,
        )
        self._clock, self._receiver = clock, receiver
        self._senders.start()

    def bodies(self, after=2 * SECOND):
        self._clock.advance(after)
        before = len(self._receiver.received)
        self._notifier.notify()
        self._senders.begin()
        wait_until(lambda: not self._senders._waiting and not self._senders._running)
        assert all(one.is_signed_with(SECRET) for one in self._receiver.received[before:])
        return [one.body for one in self._receiver.received[before:]]

    def ids(self, after=2 * SECOND):
        return sorted(body["subscriptionId"] for body in self.bodies(after))

    def stop(self):
        self._senders.stop()


@pytest.fixture
def look(store, clock, receiver):
    one = Look(store, clock, receiver)
    yield one
    one.stop()


def test_fanout_tells_every_subscription_of_the_command_and_queue(store, subscription, look):
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


def test_a_subscription_is_told_again_after_its_interval_while_work_waits(store, subscription, look):
    subscribe(store, subscription("a"), subscription("b", min_interval_seconds=3.0))
    enqueue(store, "1")
    told = Counter(id_ for _ in range(15) for id_ in look.ids())  # 30 seconds
    assert 2 <= told["a"] <= 4
    assert 6 <= told["b"] <= 11


def test_delayed_released_and_expired_tasks_are_told_of_when_they_are_due(store, subscription, look):
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
    return store.do(Inspect(job_ids=["probe"]))["probe"].available_at


def test_a_group_is_told_once_and_its_members_take_turns(store, subscription, look):
    group = {"mode": DeliveryMode.GROUP, "min_interval_seconds": 1.0}
    subscribe(store, *(subscription(f"g{n}", group="g", **group) for n in range(3)))
    subscribe(store, subscription("h0", group="h", **group))
    enqueue(store, "1")
    looks = [look.ids() for _ in range(40)]
    assert all(len([id_ for id_ in ids if id_[0] == "g"]) == 1 for ids in looks)
    assert all("h0" in ids for ids in looks)
    assert {id_ for ids in looks for id_ in ids} == {"g0", "g1", "g2", "h0"}


def test_hash_chooses_one_subscription_per_task_always_the_same_one(store, subscription, look):
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


def test_a_subscription_ends_when_its_time_is_over(store, subscription, look):
    subscribe(store, subscription("a", ttl_seconds=5.0, min_interval_seconds=1.0))
    enqueue(store, "1")
    assert look.ids() == ["a"]
    assert look.ids(after=5 * SECOND) == []


def test_two_processes_tell_a_subscription_once(store, clock, subscription, receiver, look):
    other = Look(store, clock, receiver, "two")
    subscribe(store, subscription("a"))
    enqueue(store, "1")
    assert look.ids() == ["a"]
    assert other.ids(after=0) == []
    other.stop()


def test_many_delayed_tasks_do_not_hide_the_due_ones_from_hash(store, subscription, look, monkeypatch):
    monkeypatch.setattr(module, "PAGE_TASKS", 2)
    members = [subscription(f"s{n}", mode=DeliveryMode.HASH, min_interval_seconds=1.0) for n in range(3)]
    subscribe(store, *members)
    enqueue(store, *(f"a{n}" for n in range(5)), run_at=store_now(store) + 3600 * SECOND)
    enqueue(store, "b")
    told = [(body["subscriptionId"], body["taskIds"]) for body in look.bodies()]
    assert told == [(choose(members, "t", "b").id, ["b"])]
    monkeypatch.setattr(module, "MAX_PAGES", 1)
    [body] = look.bodies()
    assert (body["subscriptionId"], "taskIds" in body) == (choose(members, "t", "").id, False)


def test_hash_tells_every_due_task_to_its_own_subscription_at_once(store, subscription, look):
    members = [subscription(f"s{n}", mode=DeliveryMode.HASH, min_interval_seconds=3600.0) for n in range(4)]
    subscribe(store, *members)
    tasks = [f"task-{n:03}" for n in range(200)]
    enqueue(store, *tasks)
    told = {body["subscriptionId"]: body["taskIds"] for body in look.bodies()}
    assert sorted(id_ for ids in told.values() for id_ in ids) == tasks
    assert all(choose(members, "t", id_).id == one for one, ids in told.items() for id_ in ids)


@pytest.mark.parametrize("mode", [DeliveryMode.HASH, DeliveryMode.GROUP])
def test_the_work_of_a_subscription_that_cannot_be_told_is_told_to_the_next_one(store, subscription, look, down, mode):
    members = [subscription(id_, mode=mode, group="g", min_interval_seconds=600.0) for id_ in ("a", "b", "c")]
    subscribe(store, *members)
    enqueue(store, *(f"task-{n:02}" for n in range(30)))
    down |= {"a", "b"} if mode is DeliveryMode.HASH else {"a", "b", "c"}
    bodies = look.bodies() + look.bodies() + look.bodies()  # in less than an interval
    by_id = {id_: [body for body in bodies if body["subscriptionId"] == id_] for id_ in "abc"}
    if mode is DeliveryMode.HASH:
        assert len(by_id["c"]) >= 2
        assert sorted(by_id["c"][-1]["taskIds"]) == [f"task-{n:02}" for n in range(30)]
    else:
        assert {id_: len(found) for id_, found in by_id.items()} == {"a": 1, "b": 1, "c": 1}
    assert look.bodies() == []  # until the interval is over
    down.clear()
    assert len(look.bodies(after=600 * SECOND)) == (1 if mode is DeliveryMode.GROUP else 3)


def test_one_host_gets_a_bounded_number_of_notifications_in_one_look_and_all_in_turn(store, subscription, look):
    subscribe(store, *(subscription(f"s{n:02}", min_interval_seconds=0.1) for n in range(25)))
    enqueue(store, "1")
    looks = [look.ids() for _ in range(3)]
    assert [len(ids) for ids in looks] == [module.MAX_PER_HOST] * 3
    assert len({id_ for ids in looks for id_ in ids}) == 25


def test_notifications_that_wait_for_senders_are_bounded(store, subscription, look, monkeypatch):
    monkeypatch.setattr(module, "MAX_SENDING", 4)
    subscribe(store, *(subscription(f"s{n}", min_interval_seconds=3600.0) for n in range(6)))
    enqueue(store, "1")
    looks = [look.ids(), look.ids(), look.ids()]
    assert [len(ids) for ids in looks] == [4, 2, 0]
    assert len({id_ for ids in looks for id_ in ids}) == 6


def test_notifications_leave_no_rows(store, subscription, look):
    subscribe(store, subscription("a"))
    enqueue(store, "1")
    assert look.ids() == ["a"]
    assert [job.id for job in store.find(limit=10)] == ["1"]
