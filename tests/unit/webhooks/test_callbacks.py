"""The reader of the ledger: each end of a job with a webhook becomes one delivery, whoever dies or overtakes it."""

from __future__ import annotations

import json

import pytest

from holdfast import connect
from holdfast.artifacts.manifest import Artifact, Manifest
from holdfast.artifacts.records import manifest_change, record_failure
from holdfast.clock import DAY, SECOND, ManualClock
from holdfast.driver import Ack, Fail, JobRecord, Retry, forget_reader, register_reader
from holdfast.drivers.requests import Cancel, Enqueue, Inspect, Purge, Requeue, Trim, Write
from holdfast.errors import StoreUnavailable
from holdfast.webhooks import callbacks
from holdfast.webhooks.callbacks import NAMING_TIME, CallbackReader
from holdfast.webhooks.delivery import CALLBACK, QUEUE, read_delivery
from holdfast.wire.signing import KeyRing, Signer, SigningKey

URL = "https://hooks.example.org/jobs"


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(clock):
    with connect("memory://", clock=clock) as opened:
        yield opened


def reader(store, clock, name="one", *, signer=None):
    return CallbackReader(store, space="main", name=name, signer=signer, clock=clock)


def job(id_="a", **fields):
    return JobRecord(
        **{"id": id_, "type": "t", "queue": "q", "payload": b"1", "created_at": 1, "webhook": URL, **fields}
    )


def run(store, end):
    """Reserve one job and end its lease."""
    [reservation] = store.reserve(["q"], limit=1, lease_for=SECOND)
    store.settle([end(reservation.lease)])
    return reservation


def deliveries(store):
    return [(one, read_delivery(one)) for one in store.find(limit=1000) if one.queue == QUEUE]


def bodies(store):
    return [json.loads(delivery.body) for _, delivery in deliveries(store)]


def test_the_end_of_a_job_with_a_webhook_becomes_one_delivery(store, clock):
    store.enqueue([job(), job("b", webhook=None)])
    fence = run(store, lambda lease: Ack(lease, result=b'{"n": 1}')).lease.fence
    run(store, Ack)
    assert reader(store, clock).read() is False
    [(record, delivery)] = deliveries(store)
    assert (record.type, record.idempotency_key, record.limit_key) == (CALLBACK, f"a/{fence}", "hooks.example.org")
    assert (delivery.url, delivery.id[:4]) == (URL, "msg_")
    assert json.loads(delivery.body) == {
        "taskId": "a",
        "command": "t",
        "status": "COMPLETED",
        "result": {"n": 1},
        "error": None,
        "artifacts": [],
        "attempts": 1,
        "completedAt": "2027-01-15T08:00:00Z",
    }


def test_failures_and_cancels_are_ends_and_retries_are_none(store, clock):
    store.enqueue([job(), job("b", max_attempts=1), job("c")])
    run(store, lambda lease: Retry(lease, delay=DAY, error="busy"))
    run(store, lambda lease: Retry(lease, error="no answer"))
    store.do(Cancel(job_ids=["a"]))
    run(store, lambda lease: Fail(lease, reason="bad address"))
    reader(store, clock).read()
    ends = [(one["taskId"], one["status"], one["error"], one["result"]) for one in bodies(store)]
    assert ends == [
        ("b", "FAILED", "no answer", None),
        ("a", "CANCELLED", None, None),
        ("c", "FAILED", "bad address", None),
    ]


def test_a_requeued_job_has_a_callback_for_each_of_its_ends(store, clock):
    store.enqueue([job()])
    one = reader(store, clock)
    run(store, lambda lease: Fail(lease, reason="first"))
    store.do(Requeue(job_ids=["a"]))  # before the end was read
    one.read()
    store.do(Cancel(job_ids=["a"]))
    one.read()
    store.do(Requeue(job_ids=["a"]))
    clock.advance(SECOND)
    store.do(Cancel(job_ids=["a"]))
    one.read()
    assert [body["status"] for body in bodies(store)] == ["FAILED", "CANCELLED", "CANCELLED"]
    assert len({delivery.id for _, delivery in deliveries(store)}) == 3


def test_a_reader_that_dies_before_it_moves_on_repeats_the_page_and_stores_nothing_twice(store, clock, monkeypatch):
    monkeypatch.setattr(callbacks, "MAX_HELD_BYTES", 1)  # each delivery is stored by itself
    store.enqueue([job(name) for name in "abc"])
    for _ in "abc":
        run(store, Ack)
    do = store.do

    def fail(request):
        if isinstance(request, Enqueue) and request.writes:
            raise StoreUnavailable("memory", "gone")
        return do(request)

    monkeypatch.setattr(store, "do", fail)
    with pytest.raises(StoreUnavailable):
        reader(store, clock).read()
    assert len(deliveries(store)) == 2
    monkeypatch.undo()
    clock.advance(DAY)  # the turn of the dead one is over
    reader(store, clock, "two").read()
    assert sorted(body["taskId"] for body in bodies(store)) == ["a", "b", "c"]


def test_of_two_readers_one_has_the_turn_and_the_other_takes_over_when_it_dies(store, clock):
    one, two = reader(store, clock), reader(store, clock, "two")
    store.enqueue([job(), job("b")])
    run(store, Ack)
    one.read()
    run(store, Ack)
    two.read()  # it is the turn of the first one
    assert len(deliveries(store)) == 1
    clock.advance(10 * SECOND)
    two.read()
    assert len(deliveries(store)) == 2
    two.stop()


def test_a_reader_that_was_overtaken_stores_nothing(store, clock):
    store.enqueue([job()])
    run(store, Ack)
    one, two = reader(store, clock), reader(store, clock, "two")
    do = store.do

    def overtake(request):  # while the first one makes its deliveries, its turn ends and another one reads the page
        if isinstance(request, Inspect):
            store.do = do
            clock.advance(10 * SECOND)
            two.read()
        return do(request)

    store.do = overtake
    assert one.read() is True
    assert one.read() is False
    assert len(deliveries(store)) == 1


def test_retention_waits_for_the_reader_and_a_gap_is_logged(store, clock, caplog):
    one = reader(store, clock)
    store.enqueue([job(), job("b")])
    run(store, Ack)
    one.read()
    run(store, Ack)
    clock.advance(40 * DAY)
    assert store.do(Trim(ended_for=DAY, ledger_for=1)).ledger == 1
    assert store.do(Purge(job_ids=["b"])) == [False]
    one.read()
    assert [body["taskId"] for body in bodies(store)] == ["a", "b"]
    cursor = store.ledger(limit=1).cursors[0]
    store.do(Write(changes=[forget_reader(callbacks.NAME)]))
    store.do(Trim(ended_for=DAY, ledger_for=1))
    store.do(Write(changes=[register_reader(callbacks.NAME, cursor=cursor)]))
    store.enqueue([job("c")])
    run(store, Ack)
    store.do(Write(changes=[forget_reader(callbacks.NAME)]))
    clock.advance(DAY)
    store.do(Trim(ended_for=10 * DAY, ledger_for=1))
    store.do(Write(changes=[register_reader(callbacks.NAME, cursor=cursor)]))
    store.enqueue([job("d")])
    run(store, Ack)
    one.read()
    assert "webhook.missed" in caplog.text
    assert [body["taskId"] for body in bodies(store)][-1] == "d"


def test_a_webhook_that_was_not_signed_is_not_called(store, clock, caplog):
    signer = Signer(KeyRing([SigningKey(id="k", secret=b"k" * 16)]), space="main", required=True)
    [signed] = signer.sign([job("good")])
    store.enqueue([signed, job("bad")])
    run(store, Ack)
    run(store, Ack)
    reader(store, clock, signer=signer).read()
    [(record, delivery)] = deliveries(store)
    assert json.loads(delivery.body)["taskId"] == "good"
    assert signer.verify(record).value == "valid"
    assert "webhook.rejected job_id=bad" in caplog.text


def test_a_very_large_result_is_left_out(store, clock):
    store.enqueue([job()])
    run(store, lambda lease: Ack(lease, result=b'"' + b"x" * (5 << 20) + b'"'))
    reader(store, clock).read()
    [body] = bodies(store)
    assert (body["result"], body["resultBytes"]) == (None, (5 << 20) + 2)


def test_an_end_waits_a_moment_for_the_artifacts_of_a_failed_attempt_and_the_rows_before_it_do_not(store, clock):
    store.enqueue([job(), job("b"), job("c")])
    run(store, Ack)
    [failing] = store.reserve(["q"], limit=1, lease_for=DAY)
    artifact = Artifact(name="log", digest="0" * 64, size=1, content_type="a", fence=failing.lease.fence, uploaded_at=1)
    manifest = Manifest(created_at=1, uploads=(artifact,))
    store.do(Write(changes=[manifest_change("b", manifest, version=0)]))
    store.settle([Fail(failing.lease, reason="broken")])
    run(store, Ack)
    one = reader(store, clock)
    one.read()
    assert [body["taskId"] for body in bodies(store)] == ["a"]
    one.read()
    assert len(bodies(store)) == 1
    ended_at = store.do(Inspect(job_ids=["b"]))["b"].ended_at
    record_failure(store, "b", failing.lease.fence, ("log",), ended_at=ended_at)
    one.read()
    assert [[each["name"] for each in body["artifacts"]] for body in bodies(store)] == [[], ["log"], []]


def test_an_end_does_not_wait_for_ever(store, clock):
    store.enqueue([job()])
    [failing] = store.reserve(["q"], limit=1, lease_for=DAY)
    artifact = Artifact(name="log", digest="0" * 64, size=1, content_type="a", fence=failing.lease.fence, uploaded_at=1)
    store.do(Write(changes=[manifest_change("a", Manifest(created_at=1, uploads=(artifact,)), version=0)]))
    store.settle([Fail(failing.lease, reason="broken")])
    one = reader(store, clock)
    one.read()
    assert bodies(store) == []
    clock.advance(NAMING_TIME)
    one.read()
    assert [body["artifacts"] for body in bodies(store)] == [[]]


def test_jobs_are_read_by_several_at_a_time(store, clock, monkeypatch):
    monkeypatch.setattr(callbacks, "READ_JOBS", 2)
    store.enqueue([job(name) for name in "abc"])
    for _ in "abc":
        run(store, Ack)
    calls = []
    do = store.do

    def count(request):
        if isinstance(request, Inspect) and request.payloads:  # a look for webhooks reads none
            calls.append(request.job_ids)
        return do(request)

    monkeypatch.setattr(store, "do", count)
    reader(store, clock).read()
    assert calls == [["a", "b"], ["c"]]
    assert [one["taskId"] for one in bodies(store)] == ["a", "b", "c"]
