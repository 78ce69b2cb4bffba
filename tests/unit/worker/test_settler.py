"""The batches of the settler, and its reports of outages."""

import threading
from contextlib import contextmanager

import pytest

from holdfast.drivers.requests import Reap
from holdfast.errors import StoreUnavailable
from holdfast.model.job import JobRecord, State
from holdfast.model.settlement import Ack, Retry
from holdfast.worker import settler as settler_module
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.outcome import Succeeded
from holdfast.worker.processes.running import Run
from holdfast.worker.settler import Settler
from tests.in_memory import InMemory

MAX_WAIT_SECONDS = 30.0  # after which a test has failed
LEASE = 60_000_000
EXPIRED = 1  # a lease that has expired when it is settled


class Store(InMemory):
    """Records the results in each settle; can be out of reach."""

    def __init__(self):
        super().__init__()
        self.batches = []
        self.is_out = False
        self.calls_while_out = threading.Semaphore(0)

    def settle(self, settlements, *, now=None):
        self._fail_while_out()
        self.batches.append([len(one.result or b"") for one in settlements if isinstance(one, Ack)])
        return super().settle(settlements, now=now)

    def do(self, request):
        if isinstance(request, Reap):
            self._fail_while_out()
        return super().do(request)

    def _fail_while_out(self):
        if self.is_out:
            self.calls_while_out.release()
            raise StoreUnavailable("no route to the store")


@pytest.fixture
def store():
    with Store() as opened:
        yield opened


@contextmanager
def running_settler(store, settlement_of=lambda _run, outcome, lease: Ack(lease, result=outcome.result)):
    heartbeat = Heartbeat(store, lease_for=LEASE, on_lost=lambda *_: None, on_cancel=lambda _: None)
    settler = Settler(store, heartbeat, lease_for=LEASE, settlement_of=settlement_of, on_settled=lambda *_: None)
    settler.start()
    yield settler
    settler.stop(lambda: MAX_WAIT_SECONDS)


def reserve_run(store, *, lease_for=LEASE):
    job = JobRecord(id=f"job-{len(store.find(limit=1000).items)}", type="t", queue="q", payload=b"{}", created_at=1)
    store.enqueue([job])
    [reservation] = store.reserve(["q"], limit=1, lease_for=lease_for)
    return Run(1, reservation)


def settle(settler, store, sizes):
    ended = [(reserve_run(store), Succeeded(result=b"x" * size)) for size in sizes]
    settler.add(ended, more_soon=False)
    assert settler.wait_until_idle(MAX_WAIT_SECONDS)


def test_a_batch_has_a_limited_number_of_bytes_unless_one_result_alone_has_more(store, monkeypatch):
    monkeypatch.setattr(settler_module, "MAX_BATCH_BYTES", 10)
    with running_settler(store) as settler:
        settle(settler, store, [6, 20, 6, 4, 1])
    assert store.batches == [[6], [20], [6, 4], [1]]


def settle_expired(settler, store):
    """Settle an attempt whose lease has expired; return its job."""
    run = reserve_run(store, lease_for=EXPIRED)
    settler.add([(run, Succeeded())], more_soon=False)
    assert settler.wait_until_idle(MAX_WAIT_SECONDS)
    return run.reservation.job.id


def test_an_outage_is_reported_again_if_the_store_is_still_out_of_reach(store):
    with running_settler(store) as settler:
        job_id = settle_expired(settler, store)
        store.is_out = True
        with pytest.raises(StoreUnavailable):
            settler.report_outages()
        store.is_out = False
        settler.report_outages()
        assert (store.get(job_id).state, store.get(job_id).crashes) == (State.READY, 0)


def test_an_outage_is_reported_before_the_settler_ends(store):
    with running_settler(store) as settler:
        job_id = settle_expired(settler, store)
        assert store.get(job_id).state is State.INFLIGHT
    assert (store.get(job_id).state, store.get(job_id).crashes) == (State.READY, 0)


def test_a_crash_that_could_not_be_settled_is_no_outage(store):
    with running_settler(store, lambda _run, _outcome, lease: Retry(lease, crashed=True)) as settler:
        job_id = settle_expired(settler, store)
    store.reap()
    assert store.get(job_id).crashes == 1


def test_a_worker_reserves_nothing_while_the_store_does_not_settle(store):
    """The reserve would end the expired leases of the worker as crashes, before their outage is reported."""
    with running_settler(store) as settler:
        store.is_out = True
        settler.add([(reserve_run(store), Succeeded())], more_soon=False)
        for _ in range(2):
            assert store.calls_while_out.acquire(timeout=MAX_WAIT_SECONDS)
        assert not settler.wait_for_capacity(0.0)
        store.is_out = False
        assert settler.wait_for_capacity(MAX_WAIT_SECONDS)
