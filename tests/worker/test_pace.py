"""The pace of the worker's threads: they hurry when there is a cause, and no longer than it lasts."""

import threading
import time

import pytest

import holdfast
from holdfast.clock import SECOND
from holdfast.drivers.requests import Extend
from holdfast.errors import StoreUnavailable
from holdfast.model.job import JobRecord
from holdfast.model.settlement import Ack
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.outcome import Succeeded
from holdfast.worker.processes.running import Run
from holdfast.worker.settler import Settler
from tests.requests_seen import answer_requests

LEASE = 6 * SECOND
INTERVAL_SECONDS = LEASE / SECOND / 3
FAILURES = 6


@pytest.fixture
def store():
    with holdfast.connect("memory://") as opened:
        yield opened


@pytest.fixture
def runs(store):
    store.enqueue([JobRecord(id=f"job-{n}", type="t", queue="q", payload=b"{}", created_at=1) for n in range(2)])
    return [Run(number, one) for number, one in enumerate(store.reserve(["q"], limit=2, lease_for=60 * SECOND))]


@pytest.fixture
def heartbeat(store):
    return Heartbeat(store, lease_for=LEASE, on_lost=lambda *_: None, on_cancel=lambda _: None)


def test_a_heartbeat_that_failed_is_repeated_soon_and_one_that_succeeded_is_not(store, runs, heartbeat, monkeypatch):
    calls = []
    is_enough = threading.Event()

    def fail_at_first(request, do):
        calls.append(time.monotonic())
        if len(calls) <= FAILURES:
            raise StoreUnavailable("no route to the store")
        if len(calls) == FAILURES + 2:
            is_enough.set()
        return do(request)

    answer_requests(monkeypatch, store, Extend, fail_at_first)
    heartbeat.start()
    heartbeat.add(runs)
    assert is_enough.wait(FAILURES * INTERVAL_SECONDS + 30)
    heartbeat.stop()
    assert calls[FAILURES] - calls[0] < (FAILURES - 1) * INTERVAL_SECONDS, "wanted a failed heartbeat repeated soon"
    assert calls[FAILURES + 1] - calls[FAILURES] >= 0.9 * INTERVAL_SECONDS, "wanted the usual pause after a success"


@pytest.fixture
def patient_settler(store, heartbeat):
    """A settler whose batches wait for more attempts without end."""
    made = Settler(
        store,
        heartbeat,
        lease_for=LEASE,
        settlement_of=lambda _run, _outcome, lease: Ack(lease),
        on_settled=lambda *_: None,
        max_delay_seconds=600.0,
    )
    made.start()
    yield made
    made.stop(lambda: 30.0)


def test_attempts_wait_for_others_again_after_one_that_had_to_be_settled_at_once(store, runs, patient_settler):
    urgent, other = runs
    patient_settler.add([(urgent, Succeeded())], more_soon=False)
    assert patient_settler.wait_until_idle(30)
    patient_settler.add([(other, Succeeded())], more_soon=True)
    assert not patient_settler.wait_until_idle(0.5), "wanted the attempt to wait for others"
    patient_settler.stop(lambda: 30.0)
    assert [store.get(run.reservation.job.id).state for run in runs] == ["done", "done"]


def test_a_hurried_settler_settles_each_attempt_as_soon_as_it_can(runs, patient_settler):
    first, second = runs
    patient_settler.add([(first, Succeeded())], more_soon=True)
    patient_settler.hurry(hurried=True)
    patient_settler.wait_for_batch(0, timeout=30)
    assert patient_settler.settled_batches == 1
    patient_settler.add([(second, Succeeded())], more_soon=True)
    assert patient_settler.wait_until_idle(30)
