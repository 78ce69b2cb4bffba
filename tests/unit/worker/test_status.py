"""The status of a settled attempt agrees with the state of the job in the store."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.clock import DAY, SECOND
from holdfast.connect import connect
from holdfast.drivers.requests import Cancel
from holdfast.errors import LeaseMismatch
from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.worker.decide import BAD_PAYLOAD, SKIPPED
from holdfast.worker.processes.running import Run
from holdfast.worker.status import settled_statuses, status_of

SETTLEMENTS = [
    ("acked", Ack, {}),
    ("skipped", Ack, {"detail": f"{SKIPPED}done by another"}),
    ("retried", Retry, {"error": "no"}),
    ("retried", Retry, {"error": "no", "crashed": True}),
    ("released", Release, {}),
    ("dead", Fail, {"reason": "never"}),
    ("rejected", Fail, {"reason": BAD_PAYLOAD}),
]
STATES = {
    "acked": "done",
    "skipped": "done",
    "retried": "ready",
    "released": "ready",
    "dead": "dead",
    "rejected": "dead",
    "cancelled": "cancelled",
}


def settle_one(settlement, fields, *, cancel=False, **job):
    """Settle a job in a store; return its status, and its state in the store."""
    with connect("memory://") as store:
        record = JobRecord(**{"id": "j", "type": "t", "queue": "q", "payload": b"1", "created_at": 1, **job})
        store.enqueue([record])
        [reservation] = store.reserve(["q"], limit=1, lease_for=60 * SECOND)
        lease = reservation.lease
        if cancel:
            store.do(Cancel(job_ids=["j"]))
            [lease] = store.extend([lease], lease_for=60 * SECOND)
        settled = settlement(lease, **fields)
        assert store.settle([settled]) == [None]
        return status_of(reservation.job, settled, None), str(store.get("j").state)


@pytest.mark.parametrize(("status", "settlement", "fields"), SETTLEMENTS)
def test_each_settlement_has_its_status(status, settlement, fields):
    assert settle_one(settlement, fields) == (status, STATES[status])


@pytest.mark.parametrize(("status", "settlement", "fields"), SETTLEMENTS)
def test_any_settlement_but_an_ack_is_cancelled_once_a_cancel_was_requested(status, settlement, fields):
    expected = status if settlement is Ack else "cancelled"
    assert settle_one(settlement, fields, cancel=True) == (expected, STATES[expected])


@pytest.mark.parametrize(
    "job", [{"attempts": 2, "max_attempts": 3}, {"crashes": 2, "max_crashes": 3}], ids=["attempts", "crashes"]
)
def test_a_retry_that_is_the_last_one_is_dead(job):
    assert settle_one(Retry, {"error": "no", "crashed": True}, **job) == ("dead", "dead")


def test_a_release_that_exceeds_its_budget_is_dead_if_the_worker_can_know():
    assert settle_one(Release, {"delay": 2 * DAY, "budget": DAY}) == ("dead", "dead")


def test_a_refused_settlement_is_lost():
    job = JobRecord(id="j", type="t", queue="q", payload=b"1", created_at=1, attempts=1)
    lease = Lease(job_id="j", token="1.a", fence=1, expires_at=2)
    assert status_of(job, Ack(lease), LeaseMismatch("j")) == "lost"


def test_a_batch_has_a_status_for_each_attempt():
    with connect("memory://") as store:
        records = [JobRecord(id=f"j{number}", type="t", queue="q", payload=b"1", created_at=1) for number in range(3)]
        store.enqueue(records)
        reservations = store.reserve(["q"], limit=3, lease_for=60 * SECOND)
    runs = [Run(number, one) for number, one in enumerate(reservations)]
    acks = [Ack(one.lease) for one in reservations]
    assert settled_statuses(runs, acks, [None] * 3) == ["acked"] * 3
    assert settled_statuses(runs, acks, [None, LeaseMismatch("j1"), None]) == ["acked", "lost", "acked"]
    skipped = Ack(reservations[1].lease, detail=f"{SKIPPED}done by another")
    assert settled_statuses(runs, [acks[0], skipped, acks[2]], [None] * 3) == ["acked", "skipped", "acked"]
    cancelled = Retry(replace(reservations[2].lease, cancel_requested=True), error="no")
    assert settled_statuses(runs, [*acks[:2], cancelled], [None] * 3) == ["acked", "acked", "cancelled"]
